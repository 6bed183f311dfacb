#pragma once
// A part of a variable that is small enough to be read for an overview of a large file: its statistics, and cells for a
// picture. Thread-safe.
//
// A picture shows a line if the array has one long dimension, else the last two dimensions at one index of the others:
// the middle of the array, or where the nearest chunk is stored. Of an axis with more chunks than are read, it shows
// consecutive ones in the middle, or evenly spaced ones where chunks are thin and on lines.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/overview/numbers.h"
#include "model/variable.h"

namespace codecfs::commands::overview {

struct SampleRules {
  size_t width = 160;  // cells of a picture, at most
  size_t height = 120;
  size_t line_width = 160;                     // cells of a line, at most
  size_t chunks = 256;                         // that are read of a variable, at most
  uint64_t bytes = uint64_t{32} << 20;         // of them, decoded; one chunk may have more
  uint64_t chunk_bytes = uint64_t{256} << 20;  // larger chunks are not read
};

/// Of the elements that were read, unpacked as scale_factor and add_offset say.
struct Statistics {
  uint64_t elements = 0;
  uint64_t valid = 0;  // those that are neither missing nor NaN: the others count only as elements
  uint64_t fill = 0;   // those that equal the fill value, mark missing data, or are NaN
  double least = 0;    // of the valid ones, if there are any
  double greatest = 0;
  double mean = 0;
};

enum class PictureKind { none, line, heat, colours };

struct Sample {
  Statistics statistics;
  uint64_t chunks = 0;              // that were read, or are not stored
  uint64_t all_chunks = 0;          // of the variable
  std::vector<Error> errors;        // of chunks, one for each that cannot be read
  std::optional<std::string> none;  // why nothing was read

  PictureKind kind = PictureKind::none;
  size_t width = 0;
  size_t height = 0;          // 1: a line
  double aspect = 1;          // height of the picture by its width
  std::vector<double> cells;  // row by row: the mean in each cell; NaN where there is nothing valid
  std::vector<double> low;    // lines: the least and the greatest in each cell
  std::vector<double> high;
  std::vector<uint8_t> colours;  // kind colours: red, green, blue of each cell
  std::string shown;             // of what elements: "[1, 0:18, 0:36]"
  bool is_upward = false;        // the first row is the last one of the array: north is above
  bool is_whole = false;         // whether the picture has the whole axes

  /// Whether the statistics are of all elements.
  [[nodiscard]] bool has_all() const { return chunks == all_chunks && errors.empty(); }
};

/// The dimension that the rows of a heat map are; none if the variable has another picture.
std::optional<size_t> row_dimension(const Variable& facts);

/// `conventions`: of the variable, which must have numbers.
Sample take_sample(Source& source, ObjectId object, const Variable& facts, const Conventions& conventions,
                   const SampleRules& rules);

/// Turns a heat map upside down.
void turn_over(Sample& sample);

/// What a picture shows of an axis: the elements of these chunks, one behind the other.
struct Axis {
  size_t dimension = 0;
  uint64_t extent = 0;           // of the array
  uint64_t chunk = 1;            // elements along the axis
  std::vector<uint64_t> chosen;  // chunks, ascending
  uint64_t length = 0;           // elements of all of them

  [[nodiscard]] bool is_whole() const { return length == extent; }
};
/// Chooses at most `most` chunks of an axis around the chunk `centre`, or evenly spaced ones.
Axis choose_chunks(size_t dimension, uint64_t extent, uint64_t chunk, uint64_t most, uint64_t centre, bool is_spaced);

}  // namespace codecfs::commands::overview
