"""The operator's day on machines with systemd: the pages of docs/operators, command by command, and then faults, each with the line that the operator looks for."""
