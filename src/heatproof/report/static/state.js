"use strict";

// What a page shows is in its address, as #key=value&key=value, so that a link shows a colleague the same.
// An address such as #answer only goes to a place of the page, and leaves what is shown as it is.
const pageState = {
  known: {},
  listeners: [],

  // What the address says now; false if it says nothing of what is shown.
  look() {
    const text = location.hash.slice(1);
    if (text !== "" && !text.includes("=")) return false;
    this.known = Object.fromEntries(new URLSearchParams(text));
    return true;
  },

  // Everything that is shown, by key.
  read() {
    return { ...this.known };
  },

  get(key) {
    return this.known[key] ?? "";
  },

  // Change some keys, and leave the others; an empty value takes its key away.
  write(changes) {
    for (const [key, value] of Object.entries(changes)) {
      delete this.known[key];
      if (value !== "" && value !== null && value !== undefined) this.known[key] = String(value);
    }
    const text = new URLSearchParams(this.known).toString();
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  },

  // Called now and whenever somebody changes the address by hand or goes back.
  follow(listener) {
    this.listeners.push(listener);
    listener(this.read());
  },
};

pageState.look();
addEventListener("hashchange", () => {
  if (pageState.look()) for (const listener of pageState.listeners) listener(pageState.read());
});
