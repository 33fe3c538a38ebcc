// Runs before anything is drawn: the chosen theme, and the mark that scripts work.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const kept = localStorage.getItem("farfield-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch {
    // A page opened from a file may have no storage; then the system's theme is used.
  }
})();
