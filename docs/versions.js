// Lists the versions of the site in its bar, if it stands among others (`cargo xtask site FOLDER`).
(async () => {
  const root = new URL(path_to_root || "./", location.href);
  const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
  if (!answer?.ok) return;
  const list = document.createElement("select");
  list.setAttribute("aria-label", "Version");
  for (const version of await answer.json()) {
    const here = root.pathname.endsWith(`/${version}/`);
    list.append(new Option(version, version, here, here));
  }
  // Another version may not have this page.
  list.addEventListener("change", () => { location.href = new URL(`../${list.value}/`, root); });
  document.querySelector(".right-buttons")?.prepend(list);
})();
