"use strict";
(() => {
  if (!window.PublicKeyCredential || !navigator.credentials) return;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => {
    let s = "";
    for (const b of new Uint8Array(buffer)) s += String.fromCharCode(b);
    return btoa(s).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };

  // A part of a form asks for a passkey and sends the form with its answer.
  const begin = (part) => {
    const form = part.closest("form");
    const button = part.querySelector("button");
    const problem = part.querySelector("[role=alert]");
    let offered; // the passkeys that the browser offers beside the name
    let sent = false; // a challenge is answered once, also if two ways to ask end at the same time

    const send = (made) => {
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
      for (const typed of form.querySelectorAll("input[type=password]")) typed.disabled = true;
      part.querySelector("input[name=credential]").value = JSON.stringify({ id: made.id, rawId: text(made.rawId), type: made.type, response });
      form.requestSubmit(button);
    };

    const options = () => {
      const o = JSON.parse(part.dataset.options);
      o.challenge = bytes(o.challenge);
      if (o.user) o.user.id = bytes(o.user.id);
      for (const c of o.excludeCredentials || []) c.id = bytes(c.id);
      return o;
    };

    const ask = async () => {
      problem.hidden = true;
      if (offered) offered.abort();
      try {
        const publicKey = options();
        send(await (part.dataset.passkey === "create" ? navigator.credentials.create({ publicKey }) : navigator.credentials.get({ publicKey })));
      } catch {
        problem.hidden = sent;
      }
    };

    const offer = async () => {
      const name = form.querySelector("input[autocomplete~=webauthn]");
      // After a mistake the person chooses again: a browser that answers by itself would go on for ever.
      if (!name || document.getElementById("problem") || !PublicKeyCredential.isConditionalMediationAvailable) return;
      if (!(await PublicKeyCredential.isConditionalMediationAvailable())) return;
      offered = new AbortController();
      try {
        send(await navigator.credentials.get({ publicKey: options(), mediation: "conditional", signal: offered.signal }));
      } catch {
        // The person chose another way.
      }
    };

    part.hidden = false;
    button.addEventListener("click", (event) => {
      event.preventDefault();
      ask();
    });
    if (part.dataset.passkey === "get") offer();
    // A page that the browser kept comes back as it was left: its form was sent, perhaps in vain.
    addEventListener("pageshow", (event) => {
      if (!event.persisted) return;
      sent = false;
      for (const typed of form.querySelectorAll("input[type=password]")) typed.disabled = false;
    });
  };

  for (const part of document.querySelectorAll("[data-passkey]")) begin(part);
})();
