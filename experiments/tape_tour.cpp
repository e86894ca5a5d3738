// A tour of automatic differentiation: attention over three tokens, built step by step, and its backward pass watched.
#include <fstream>

#include "autograd/gradcheck.h"
#include "autograd/node.h"
#include "autograd/operations.h"
#include "autograd/tape.h"
#include "experiments/support/program/program.h"
#include "tensor/support/atomic_file.h"

namespace {

using namespace fovea;

std::string indented(const std::string& rows) {
  std::string out = "    ";
  for (char c : rows) out += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return out;
}

void show(const char* formula, const Variable& x) {
  fmt::print("{}   {}\n{}\n\n", formula, x.shape().str(), indented(values_text(x.value())));
}

/// softmax(Q Kᵀ / sqrt(2)) V of three tokens of width two; the loss is the sum of the output's squares.
struct TinyAttention {
  Variable x, query, key, value;

  explicit TinyAttention(Device device)
      : x(leaf({1, 0, 0, 1, 1, 1}, {3, 2}, device, "X")),
        query(leaf({1, 0, 0, 0.5}, {2, 2}, device, "W_Q")),
        key(leaf({0.5, 0.5, 0, 1}, {2, 2}, device, "W_K")),
        value(leaf({1, 0, 1, 1}, {2, 2}, device, "W_V")) {}

  static Variable leaf(std::initializer_list<double> values, const Shape& shape, Device device, const char* name) {
    return Variable(Tensor::of(values, shape).to(device), true).named(name);
  }
  std::vector<Variable> leaves() const { return {x, query, key, value}; }

  Variable loss(bool aloud) const {
    auto say = [&](const char* formula, const Variable& result) {
      if (aloud) show(formula, result);
      return result;
    };
    Variable q = say("Q = X W_Q", matmul(x, query));
    Variable k = say("K = X W_K", matmul(x, key));
    Variable v = say("V = X W_V", matmul(x, value));
    Variable z = say("Z = Q K^T / sqrt(2)", matmul(q, transpose(k, 0, 1), {.scale = 0.70710678118654752}));
    Variable a = say("A = softmax(Z)", softmax(z));
    Variable o = say("O = A V", matmul(a, v));
    return say("L = sum of O * O", sum(o * o));
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run("tape_tour", argc, argv, [](Cli& cli) {
    std::string device = "cpu", drawing = "tape.dot";
    cli.describe(
        "A tour of automatic differentiation, to read beside autograd/README.md. It builds attention over three tokens "
        "of two numbers each, L = sum of (softmax(Q K^T / sqrt(2)) V)^2, and prints in five parts: every formula with "
        "its value; the tape, one line for each operation with its inputs, shape and bytes; the gradient that arrives "
        "at each operation as the tape is walked back; the gradients of X, W_Q, W_K and W_V; and whether finite "
        "differences agree. Then it draws the tape.");
    cli.option("--device", device, "where to compute").one_of({"cpu", "cuda"});
    cli.option("--drawing", drawing,
               "the file to write for Graphviz, which makes a picture of it: dot -Tsvg tape.dot -o tape.svg");
    cli.parse();
    require(!drawing.empty(), "--drawing: the name of a file is missing");

    TinyAttention attention(parse_device(device));
    fmt::print("1. The forward pass. Each line computes a value, and appends one entry to the tape.\n\n");
    show("X", attention.x);
    KeepValues keep;
    Variable loss = attention.loss(true);

    fmt::print("2. The tape: the operations in the order in which they were made.\n\n{}\n", tape_text(loss));

    fmt::print(
        "3. The backward pass: one walk from the end of the tape to its beginning. An operation's turn comes when the "
        "gradient\n"
        "   of its result is complete, because everything that used the result was recorded after it.\n\n");
    backward(loss, {}, {.observer = [](const Node& node, const Gradients& gradients) {
               fmt::print("dL / d {}(...)   {}\n{}\n\n", node.name(), gradients[0].shape().str(),
                          indented(values_text(gradients[0].value())));
             }});

    fmt::print("4. What arrives at the leaves.\n\n");
    for (const Variable& leaf : attention.leaves()) show(("dL / d " + leaf.name()).c_str(), leaf.grad());

    fmt::print("5. Is it right? The same gradients by finite differences, element by element: ");
    std::string difference =
        gradcheck([&](const std::vector<Variable>&) { return attention.loss(false); }, attention.leaves());
    require(difference.empty(), "gradcheck: {}", difference);
    fmt::print("they agree to six digits.\n");

    Variable again = attention.loss(false);
    write_file_atomically(drawing, tape_graphviz(again));
    fmt::print("\nThe drawing is in {}: dot -Tsvg {} -o tape.svg\n", drawing, drawing);
  });
}
