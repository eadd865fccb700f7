"use strict";
(() => {
  if (!window.PublicKeyCredential || !navigator.credentials) return;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => {
    let s = "";
    for (const b of new Uint8Array(buffer)) s += String.fromCharCode(b);
    return btoa(s).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };

  const options = (form) => {
    const o = JSON.parse(form.dataset.options);
    o.challenge = bytes(o.challenge);
    if (o.user) o.user.id = bytes(o.user.id);
    for (const c of o.excludeCredentials || []) c.id = bytes(c.id);
    return o;
  };

  let sent = false; // a challenge is answered once, also if two ways to ask end at the same time
  const send = (form, made) => {
    if (sent) return;
    sent = true;
    const r = made.response;
    const response = { clientDataJSON: text(r.clientDataJSON) };
    if (r.attestationObject) {
      response.attestationObject = text(r.attestationObject);
      response.transports = r.getTransports ? r.getTransports() : [];
    } else {
      response.authenticatorData = text(r.authenticatorData);
      response.signature = text(r.signature);
      if (r.userHandle) response.userHandle = text(r.userHandle);
    }
    form.elements.credential.value = JSON.stringify({ id: made.id, rawId: text(made.rawId), type: made.type, response });
    form.submit();
  };

  let offered; // the passkeys that the browser offers beside the name
  const ask = async (form) => {
    const problem = form.querySelector("[role=alert]");
    problem.hidden = true;
    if (offered) offered.abort();
    try {
      const publicKey = options(form);
      send(form, await (form.dataset.passkey === "create" ? navigator.credentials.create({ publicKey }) : navigator.credentials.get({ publicKey })));
    } catch {
      problem.hidden = false;
    }
  };

  const offer = async (form) => {
    const name = document.querySelector("input[autocomplete~=webauthn]");
    // After a mistake the person chooses again: a browser that answers by itself would go on for ever.
    if (!name || document.getElementById("problem") || !PublicKeyCredential.isConditionalMediationAvailable) return;
    if (!(await PublicKeyCredential.isConditionalMediationAvailable())) return;
    offered = new AbortController();
    try {
      send(form, await navigator.credentials.get({ publicKey: options(form), mediation: "conditional", signal: offered.signal }));
    } catch {
      // The person chose another way.
    }
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      ask(form);
    });
    if (form.dataset.passkey === "get") offer(form);
  }
})();
