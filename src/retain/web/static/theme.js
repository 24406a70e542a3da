// Before the first paint, so that nobody sees the other colours flash.
const chosen = localStorage.getItem("retain-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
