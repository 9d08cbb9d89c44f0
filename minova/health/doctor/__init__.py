"""`minova-manage doctor`: what is wrong with the cloud, and which command mends it. Each module checks one subject."""
