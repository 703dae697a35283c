// Forms that are sent with a passkey: `data-passkey` is "create" for a new one, "get" for one that exists. What is asked of
// the browser stands in the page; where it does not, whoever has any passkey of this server may sign in.

const KNOWN = "cm-passkey"; // somebody has used one in this browser

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (localStorage.getItem(KNOWN)) form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const told = form.querySelector("[role=alert]");
    told.hidden = true;
    try {
      form.elements.credential.value = JSON.stringify(await passkey(form));
      localStorage.setItem(KNOWN, "yes");
      form.submit();
    } catch (error) {
      told.textContent = globalThis.PublicKeyCredential
        ? "No passkey was used: it was cancelled, or took too long, or this device has none for this page."
        : "This browser uses passkeys only on pages that are served by HTTPS.";
      told.hidden = false;
      console.info(error);
    }
  });
}

async function passkey(form) {
  const options = await asked(form);
  if (form.dataset.passkey === "get") {
    return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  }
  const selection = { ...options.authenticatorSelection, residentKey: "required", requireResidentKey: true, userVerification: "required" };
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON({ ...options, authenticatorSelection: selection });
  return navigator.credentials.create({ publicKey });
}

async function asked(form) {
  const inPage = document.getElementById("passkey-options");
  if (inPage) {
    const { creation_options: create, request_options: get } = JSON.parse(inPage.textContent);
    return (create ?? get).publicKey;
  }
  const answer = await fetch(form.action, { headers: { Accept: "application/json" } });
  return (await answer.json()).request_options.publicKey;
}
