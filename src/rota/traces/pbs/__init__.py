"""PBS and Torque: accounting logs (`server_priv/accounting/20240301`), and `qstat -xf -F json` of PBS Pro."""
