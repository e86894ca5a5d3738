#include "tensor/gather.h"

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

void require_index(const char* what, const Tensor& index, const Tensor& x) {
  require(x.defined() && index.defined(), "{}: an operand is undefined", what);
  require(index.dtype() == DType::i32 || index.dtype() == DType::i64, "{}: an index is i32 or i64, not {}", what,
          name(index.dtype()));
  require(index.device() == x.device(), "{}: the index is on {}, {} is on {}; move one of them", what,
          name(index.device()), x, name(x.device()));
}

/// Checks the operands, and returns the shape of the rows that `index` picks from `table`.
Shape picked_shape(const char* what, const Tensor& table, const Tensor& index) {
  require_index(what, index, table);
  require(table.rank() == 2, "{}: the table must be [rows, width], it is {}", what, table);
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
  Shape expected = picked_shape("scatter_add_rows", table, index);
  require(
      rows.defined() && rows.shape() == expected && rows.dtype() == table.dtype() && rows.device() == table.device(),
      "scatter_add_rows: the rows are {}, they must be {} {} on {}: the index's sizes and the table's width", rows,
      name(table.dtype()), expected, name(table.device()));
  require_real("scatter_add_rows", table);
  require_own_elements("scatter_add_rows", table);
  if (index.elements() == 0) return;
  const bool same_memory = rows.overlaps(table) || rows.is_same_view(table);
  kernels(table.device())
      .scatter_add_rows(in_range("scatter_add_rows", "index", index, table.size(0)), table, index,
                        same_memory ? rows.clone() : rows);
}

Tensor gather_last(const Tensor& x, const Tensor& index) {
  require_index("gather_last", index, x);
  require_rows("gather_last", x);
  require_rows("gather_last", index);
  Shape shape = broadcast("gather_last", leading_shape(x.shape()), leading_shape(index.shape()));
  shape.push_back(index.size(-1));
  Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  require_in_range("gather_last", "index", index, x.size(-1));
  kernels(x.device()).gather_last(x, index, out);
  return out;
}

Tensor scatter_add_last(const Tensor& x, const Tensor& index, std::int64_t size) {
  require_index("scatter_add_last", index, x);
  require_rows("scatter_add_last", x);
  require_rows("scatter_add_last", index);
  require_real("scatter_add_last", x);
  Shape shape = leading_shape(x.shape());
  require(index.size(-1) == x.size(-1) && broadcast("scatter_add_last", leading_shape(index.shape()), shape) == shape,
          "scatter_add_last: the index is {}, x {}; their last sizes must agree and the others broadcast to x's", index,
          x);
  shape.push_back(size);
  Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  require_in_range("scatter_add_last", "index", index, size);
  kernels(x.device()).scatter_add_last(x, index, out);
  return out;
}

}  // namespace fovea
