"""The dashboard: pages for a browser over the API's services, without any other host."""
