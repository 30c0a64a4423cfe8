"""The dashboard: pages over what the API's services know, for a browser, without a network beyond here."""
