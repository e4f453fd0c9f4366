// Shows what this connection negotiated; without scripting the link stays.
fetch("/tls")
  .then((response) => (response.ok ? response.text() : Promise.reject()))
  .then((text) => { document.getElementById("tls").textContent = text.trim(); })
  .catch(() => {});
