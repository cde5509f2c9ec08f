(() => {
  const form = document.getElementById("search");
  const field = document.getElementById("words");
  const found = document.getElementById("found");
  const cards = [...document.querySelectorAll("[data-words]")];
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const fits = words.every((word) => card.dataset.words.includes(word));
      card.hidden = !fits;
      count += fits;
    }
    for (const group of document.querySelectorAll(".index")) {
      group.parentElement.hidden = !group.querySelector("[data-words]:not([hidden])");
    }
    found.textContent = words.length ? `${count} of ${cards.length}` : "";
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", show);
  show();
})();
