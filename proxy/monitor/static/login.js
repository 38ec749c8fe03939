// Signing in: the code of the address, or what is typed, becomes a session.

const form = document.getElementById("form");
const field = document.getElementById("secret");
const said = document.getElementById("said");

async function signIn(secret) {
  said.textContent = "Signing in …";
  try {
    const answer = await fetch("/monitor/api/login", { method: "POST", body: secret });
    if (answer.ok) {
      location.replace("/monitor/");
      return;
    }
    said.textContent = (await answer.text()).trim();
  } catch {
    said.textContent = "teeline doesn't answer.";
  }
  field.focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(field.value.trim());
});

const code = new URLSearchParams(location.search).get("code");
if (code) {
  // Out of the address bar and the history before anything else happens.
  history.replaceState(null, "", "/monitor/login");
  signIn(code);
} else {
  field.focus();
}
