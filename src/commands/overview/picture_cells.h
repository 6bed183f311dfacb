#pragma once
// Puts elements of chunks into the cells of a picture, which are fewer.

#include <cstdint>
#include <span>
#include <vector>

#include "commands/grid_regions.h"
#include "commands/overview/sample.h"

namespace codecfs::commands::overview {

class PictureCells {
 public:
  /// `axes`: the rows and the columns; one for a line; none: there is no picture. `indices`: of the other dimensions.
  /// `has_names`: values must not be mixed, as they have names.
  PictureCells(PictureKind kind, std::vector<Axis> axes, std::vector<uint64_t> indices, size_t width, size_t height,
               bool has_names);

  /// Elements along the last dimension of a chunk with the elements `region`, from `at` in it on; NaN is missing.
  void add_run(const Region& region, std::span<const uint64_t> at, std::span<const double> numbers);

  /// Sets the picture of the sample.
  void finish(const Conventions& conventions, Sample& sample) const;

 private:
  struct Cell {
    double sum = 0;
    uint64_t count = 0;
    double low = 0;
    double high = 0;
  };

  void add(size_t cell, double number);
  /// Where an element of an axis is, in elements of `Axis::length`; UINT64_MAX: it is not shown.
  [[nodiscard]] uint64_t place(size_t axis, uint64_t element) const;

  const PictureKind kind_;
  const std::vector<Axis> axes_;
  const std::vector<uint64_t> indices_;
  const bool has_names_;
  size_t width_ = 0;
  size_t height_ = 0;
  double aspect_ = 1;
  size_t channels_ = 1;
  std::vector<Cell> cells_;  // rows, columns, channels
};

}  // namespace codecfs::commands::overview
