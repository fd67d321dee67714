// What the site's search puts first: titles and headings that hold the words, guides before the API.
var Scorer = {
  score([page, title, , , score, , kind]) {
    const words = new URLSearchParams(window.location.search).get("q").toLowerCase().split(/\s+/);
    const inTitle = words.filter((word) => title.toLowerCase().includes(word)).length;
    return score + 10 * inTitle - (page === "api" && kind !== "object" ? 10 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 1,
  objPrio: { 0: 5, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
