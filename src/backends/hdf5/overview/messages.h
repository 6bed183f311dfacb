#pragma once
// What the messages of a dataset's object header say, read without libhdf5. Source: HDF5 File Format Specification 3.0,
// section IV.A.2, and what libhdf5 accepts of it.
//
// Each function is all or nothing: none if the message has anything that the function does not know exactly, or that
// libhdf5 would refuse. Only messages of files whose addresses and lengths have 8 bytes. The input may be damaged or
// hostile. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

inline constexpr uint64_t kNoAddress = UINT64_MAX;

/// The bytes of an encoded datatype at the beginning of `bytes`, which all of it is in; none: it is damaged, nested
/// deeper than 32, or of an unknown kind. What it says need not be valid.
std::optional<size_t> datatype_bytes(Bytes bytes);
/// The newest version of an encoded datatype and the types in it, and whether all of it is such as HDF5 writes: of
/// known versions and kinds, and of a version after 3 only kinds that have a newer form.
struct DatatypeVersion {
  uint64_t newest = 0;
  bool is_plausible = false;
};
DatatypeVersion datatype_version(Bytes bytes);

struct Dataspace {
  std::vector<uint64_t> dims;
  std::vector<std::optional<uint64_t>> most;  // none: unlimited
  bool is_null = false;
  uint64_t count = 1;  // of elements
};
std::optional<Dataspace> parse_dataspace(Bytes bytes);

struct FillMessage {
  bool is_undefined = false;  // no value is defined
  bool is_written = true;     // not H5D_FILL_TIME_NEVER
  Bytes value;                // refers to the message; empty: the default
};
/// Versions 2 and 3.
std::optional<FillMessage> parse_fill(Bytes bytes);
/// The value of an old message, which may be beside the other one.
std::optional<Bytes> parse_old_fill(Bytes bytes);

struct LayoutMessage {
  enum class Index : uint8_t { old_tree, single, implicit, fixed_array, extensible_array, tree };
  Storage storage = Storage::contiguous;
  uint64_t address = kNoAddress;  // of the data, or of the index of chunks
  uint64_t bytes = 0;             // contiguous and compact: of the data
  // Chunked:
  std::vector<uint64_t> chunk;  // in elements
  uint64_t element = 0;         // bytes
  Index index = Index::old_tree;
  bool is_single_filtered = false;
  uint64_t single_bytes = 0;    // of a single filtered chunk
  uint32_t single_mask = 0;     // its filter mask
  uint64_t page_bits = 0;       // of a fixed array
  bool has_wide_sizes = false;  // version 5: the index has the sizes of filtered chunks in 8 bytes
};
/// From version 3 to the newest that libhdf5 reads; not of virtual datasets.
std::optional<LayoutMessage> parse_layout(Bytes bytes);

/// The stages with the names that the file stores; `name_of` gives the others (none: not known).
std::optional<std::vector<FilterStage>> parse_filters(Bytes bytes, std::optional<std::string> (*name_of)(uint32_t id));

struct AttributeMessage {
  std::string_view name;  // these refer to the message
  Bytes type;
  Dataspace space;
  Bytes data;
};
/// Not of those with committed types.
std::optional<AttributeMessage> parse_attribute(Bytes bytes);

}  // namespace codecfs::hdf5
