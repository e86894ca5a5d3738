#include "tensor/gather.h"

#include "tensor/kernels.h"
#include "tensor/operands.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

/// Checks a table and an index of its rows, and returns the shape of the rows that the index picks.
Shape picked_shape(const char* what, const Tensor& table, const Tensor& index) {
  check(what, {{"the table", table, "any N D"}, {"the index", index, "index *"}});
  Shape shape = index.shape();
  shape.push_back(table.size(1));
  return shape;
}

}  // namespace

Tensor gather_rows(const Tensor& table, const Tensor& index) {
  Tensor out = Tensor::empty(picked_shape("gather_rows", table, index), table.dtype(), table.device());
  gather_rows_into(table, index, out);
  return out;
}

void gather_rows_into(const Tensor& table, const Tensor& index, Tensor out) {
  require(out.shape() == picked_shape("gather_rows", table, index) && out.dtype() == table.dtype() &&
              out.device() == table.device(),
          "gather_rows: {} rows of {} on {} do not go into {} on {}", index.shape(), table, name(table.device()), out,
          name(out.device()));
  require_own_elements("gather_rows", out);
  if (index.elements() == 0) return;
  kernels(table.device()).gather_rows(in_range("gather_rows", "index", index, table.size(0)), table, index, out);
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

}  // namespace fovea
