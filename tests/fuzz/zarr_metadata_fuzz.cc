// Any text as .zarray, .zattrs and .zgroup (separated by zero bytes): a variable with consistent numbers, or an error
// with a reason.

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/zarr/metadata/metadata.h"
#include "model/limits.h"
#include "require.h"

namespace {

using namespace codecfs;

void check_error(const Error& error) { require(error.code != 0 && !error.reason.empty(), "an error has a reason"); }

void check(const Variable& variable) {
  const ChunkGrid& grid = variable.grid;
  require(grid.shape().size() == grid.rank() && grid.chunks().size() == grid.rank(), "a grid has one rank");
  require(!variable.dimensions || variable.dimensions->size() == grid.rank(), "each dimension has a name");
  if (variable.chunk_bytes)
    require(*variable.chunk_bytes == grid.elements_per_chunk() * variable.type.size, "a chunk is its elements");
  if (variable.unreadable) return check_error(*variable.unreadable);
  require(!variable.chunk_bytes || *variable.chunk_bytes <= max_chunk_bytes(), "a chunk that is read is bounded");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  zarr::ArrayTexts texts{.zarray = text.substr(0, end), .zattrs = {}};
  if (end != std::string::npos) texts.zattrs = text.substr(end + 1);
  if (auto array = zarr::parse_array(texts)) {
    check(array->variable);
    if (array->may_be_narrow_text) zarr::narrow_text(*array);
  } else {
    check_error(array.error());
  }
  if (const auto attributes = zarr::parse_attributes(text); !attributes) check_error(attributes.error());
  if (const auto group = zarr::check_group(text); !group) check_error(group.error());
  return 0;
}
