// Offers passkeys where they work, and says why none was used, which allauth's scripts only log.

const byPasskey = document.getElementById("by-passkey");
if (byPasskey && globalThis.PublicKeyCredential && /[a-z]/i.test(location.hostname)) byPasskey.hidden = false;

document.addEventListener("allauth.error", () => {
  document.getElementById("no-passkey")?.remove();
  const told = Object.assign(document.createElement("p"), { id: "no-passkey", className: "errornote", role: "alert" });
  told.textContent = globalThis.PublicKeyCredential
    ? "No passkey was used: it was cancelled, or took too long, or this device has none for this page."
    : "This browser uses passkeys only on pages that are served by HTTPS.";
  document.getElementById("content").prepend(told);
});
