"""The health of a cloud for operators: gauges, warnings of certificates, and `minova-manage doctor`."""
