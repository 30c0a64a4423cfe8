"""The controller over HTTP: routes by subject over a `rota.server.facade.Controller`."""
