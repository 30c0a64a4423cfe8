"""The controller over HTTP: routes by subject over what `services` names."""
