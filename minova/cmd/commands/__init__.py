"""The commands of minova-manage: one file for each noun."""
