/* Which page of the manual the operators of a file of ops/ stand on. */
#include "opgen.h"

const page pages[] = {
    {"movement", "Copying, layout and joining",
     "Copies, conversions and fills; padding, repeating, turning round; tensors joined to one.",
     "move layout join"},
    {"creation", "Creating", "Tensors made from numbers alone, and triangles of matrices.",
     "create"},
    {"arithmetic", "Arithmetic of two tensors", "Elementwise; shapes broadcast as in NumPy.",
     "binary power"},
    {"logic", "Comparing, logic and bits", "Elementwise; shapes broadcast as in NumPy.",
     "compare logic"},
    {"functions", "Functions of one tensor",
     "Elementwise: mathematics, activations, rounding, tests of numbers.", "unary activation"},
    {"function-gradients", "Gradients of functions of one tensor",
     "Elementwise: what activations pass back.", "unary_grad"},
    {"selection", "Choosing and mixing", "Elementwise, of two or three tensors.", "select"},
    {"reduction", "Reductions", "Sums, extremes, moments and norms over axes.", "reduce statistic"},
    {"scan", "Running sums and extremes", "Along one axis.", "scan"},
    {"indexing", "Reading and writing by index", "Gathers, scatters and what they need.",
     "index gather_nd"},
    {"sorting", "Sorting", "Along one axis, and what is different in a tensor.", "sort"},
    {"product", "Products", "Of matrices and vectors.", "product vector"},
    {"convolution", "Convolutions", "Of one to three axes, transposed ones, with gradients.",
     "conv conv_nd"},
    {"quantisation", "Quantised numbers and integer products",
     "To integers and back; products and convolutions of what they hold.", "quant"},
    {"pooling", "Pooling", "Of one to three axes, with gradients.", "pool pool_nd"},
    {"resizing", "Resizing", "Images to another size, with the gradient.", "resize"},
    {"vision", "Images",
     "Reading images at places: axis by axis, by a grid, in boxes; boxes that overlap; responses.",
     "vision"},
    {"normalisation", "Normalisation", "Over batches, layers and groups, with gradients.", "norm"},
    {"softmax", "Softmax", "Along one axis, with gradients.", "softmax"},
    {"loss", "Losses", "Of classes and of pairs of tensors, with gradients.", "loss pair_loss"},
    {"attention", "Embeddings, rotary positions and attention", "With gradients.", "attention"},
    {"recurrent", "Recurrent networks",
     "LSTM, GRU and plain ones over sequences, as ONNX defines them, with gradients.", "recurrent"},
    {"random", "Random numbers",
     "Counter-based (Philox4x32-10): a seed gives the same numbers on every device.",
     "random draw"},
    {"optimiser", "Optimisers", "Updates in place, of one tensor or of lists.", "optimiser multi"},
};
const int num_pages = sizeof pages / sizeof *pages;

/* Whether `word` is one of those between blanks in `words`. */
static bool has_word(const char *words, const char *word, size_t length) {
  for (const char *at = words; *at; at += strspn(at, " ")) {
    size_t here = strcspn(at, " ");
    if (here == length && memcmp(at, word, length) == 0) return true;
    at += here;
  }
  return false;
}

bool page_has(const page *p, const row *r) {
  const char *slash = strrchr(r->file, '/'), *name = slash ? slash + 1 : r->file;
  return has_word(p->files, name, strcspn(name, "."));
}

bool pages_check(void) {
  for (int i = 0; i < num_rows; ++i) {
    int found = 0;
    for (int k = 0; k < num_pages; ++k) found += page_has(&pages[k], &rows[i]);
    if (found == 1) continue;
    return fprintf(stderr, "opgen/pages.c: %s of %s stands on %d pages, not on one\n", rows[i].name,
                   rows[i].file, found),
           false;
  }
  return true;
}
