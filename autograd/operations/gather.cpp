#include "autograd/operations/gather.h"

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/kernels.h"
#include "tensor/operands.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

/// Computes gather_rows_into() for operands that have been checked.
void pick_rows(const Tensor& table, const Tensor& index, Tensor& out) {
  if (index.elements() > 0)
    kernels(table.device()).gather_rows(in_range("gather_rows", "index", index, table.size(0)), table, index, out);
}

}  // namespace

Tensor gather_rows(const Tensor& table, const Tensor& index) {
  check("gather_rows", {{"the table", table, "any N D"}, {"the index", index, "index *"}});
  Shape shape = index.shape();
  shape.push_back(table.size(1));
  Tensor out = Tensor::empty(shape, table.dtype(), table.device());
  pick_rows(table, index, out);
  return out;
}

void gather_rows_into(const Tensor& table, const Tensor& index, Tensor out) {
  check("gather_rows",
        {{"the table", table, "any N D"}, {"the index", index, "index ..."}, {"the result", out, "... D"}});
  require_own_elements("gather_rows", out);
  pick_rows(table, index, out);
}

void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows) {
  check("scatter_add_rows",
        {{"the table", table, "N D"}, {"the index", index, "index ..."}, {"the rows", rows, "... D"}});
  require_own_elements("scatter_add_rows", table);
  if (index.elements() == 0) return;
  const bool same_memory = rows.overlaps(table) || rows.is_same_view(table);
  kernels(table.device())
      .scatter_add_rows(in_range("scatter_add_rows", "index", index, table.size(0)), table, index,
                        same_memory ? rows.clone() : rows);
}

Tensor gather_last(const Tensor& x, const Tensor& index) {
  check("gather_last", {{"x", x, "any * N"}, {"the index", index, "index * J"}});
  Shape shape = broadcast("gather_last", leading_shape(x.shape()), leading_shape(index.shape()));
  shape.push_back(index.size(-1));
  Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  require_in_range("gather_last", "index", index, x.size(-1));
  kernels(x.device()).gather_last(x, index, out);
  return out;
}

Tensor scatter_add_last(const Tensor& x, const Tensor& index, std::int64_t size) {
  check("scatter_add_last", {{"x", x, "* J"}, {"the index", index, "index * J"}});
  Shape shape = leading_shape(x.shape());
  require(broadcast("scatter_add_last", leading_shape(index.shape()), shape) == shape,
          "scatter_add_last: the index is {}, x {}; the leading sizes of the index must broadcast to those of x", index,
          x);
  shape.push_back(size);
  Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  require_in_range("scatter_add_last", "index", index, size);
  kernels(x.device()).scatter_add_last(x, index, out);
  return out;
}

/// If the table is read in several places, or is an output layer's weight too, a gradient of it may have arrived before
/// this rule runs. The rule adds its rows to that gradient, so that the engine need not add two whole tables.
Variable gather_rows(const Variable& table, const Tensor& index) {
  return record("gather_rows", gather_rows(table.value_for("gather_rows"), index), {table},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  const Tensor& places = index.get(node);
                  const Variable arrived = node.take_arrived(0);
                  if (!arrived.defined()) return scatter_rows(g, places, node.inputs()[0].shape[0]);
                  const bool is_ours = arrived.is_sole_owner() && arrived.value().is_dense();
                  Tensor total = is_ours ? arrived.value() : arrived.value().clone();
                  scatter_add_rows(total, places, g.value());
                  return Variable(total);
                });
}

Variable scatter_rows(const Variable& rows, const Tensor& index, std::int64_t rows_in_table) {
  const Tensor& added = rows.value_for("scatter_rows");
  Tensor table = Tensor::zeros({rows_in_table, added.size(-1)}, added.dtype(), added.device());
  scatter_add_rows(table, index, added);
  return record("scatter_rows", std::move(table), {rows},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  return gather_rows(g, index.get(node));
                });
}

Variable gather_last(const Variable& x, const Tensor& index) {
  return record("gather_last", gather_last(x.value_for("gather_last"), index), {x},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  return scatter_last(g, index.get(node), node.inputs()[0].shape[-1]);
                });
}

Variable scatter_last(const Variable& x, const Tensor& index, std::int64_t size) {
  return record("scatter_last", scatter_add_last(x.value_for("scatter_last"), index, size), {x},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  return gather_last(g, index.get(node));
                });
}

}  // namespace fovea
