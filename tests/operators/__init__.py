"""The operator's day on machines with systemd: the pages of docs/operators, command by command, and then faults; run when named."""
