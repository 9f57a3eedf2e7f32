// Blocks that scroll take the focus, so that a keyboard reaches them; captions of the sidebar say their level.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("pre, .table-wrapper, .math").forEach((block) => block.setAttribute("tabindex", "0"));
  document.querySelectorAll('p.caption[role="heading"]').forEach((caption) => caption.setAttribute("aria-level", "2"));
});
