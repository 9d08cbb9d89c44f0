"""What operators see of a cloud: gauges, warnings of certificates, and `minova-manage doctor`."""
