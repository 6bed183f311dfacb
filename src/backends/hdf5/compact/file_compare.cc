// First pairs the objects of the two files along the links, then compares their content, because comparing references
// needs all pairs.

#include "backends/hdf5/compact/file_compare.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/hdf5/compact/dataset_copy.h"
#include "backends/hdf5/compact/reference_map.h"
#include "backends/hdf5/compact/stored_chunks.h"
#include "backends/hdf5/compact/value_compare.h"
#include "backends/hdf5/format/object_walk.h"
#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "base/log.h"
#include "base/progress_reporter.h"

namespace codecfs::hdf5 {
namespace {

class FileComparison {
 public:
  FileComparison(hid_t from, hid_t to, uint64_t file_bytes)
      : from_(from), to_(to), file_bytes_(file_bytes), references_(from, to) {}

  Result<> compare() {
    const Handle from(H5Gopen2(from_, "/", H5P_DEFAULT));
    const Handle to(H5Gopen2(to_, "/", H5P_DEFAULT));
    CODECFS_TRY(meet(from.get(), to.get(), "/"));
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const Pair pair = pairs_[i];  // by value: the list grows
      CODECFS_TRY(about(pair.path, meet_what_it_has(pair)));
    }
    for (const Pair& pair : pairs_) CODECFS_TRY(about(pair.path, compare_content(pair)));
    return {};
  }

 private:
  struct Pair {
    uint64_t from = 0;
    uint64_t to = 0;
    std::string path;  // for messages
  };
  struct Opened {
    Handle from;
    Handle to;
  };

  static Result<> about(const std::string& what, Result<> result) {
    if (result) return {};
    return fail(result.error().code, "{}: {}", what, result.error().reason);
  }
  static Result<> differs(const char* what) { return fail(EIO, "its copy has {}", what); }

  Result<> meet(hid_t from, hid_t to, const std::string& path) {
    ObjectInfo old_info;
    ObjectInfo new_info;
    if (!object_info(from, old_info) || !object_info(to, new_info)) return fail_library(EIO, "{}", path);
    return about(path, meet(old_info.address, new_info.address, path));
  }

  Result<> meet(uint64_t from, uint64_t to, const std::string& path) {
    const auto known = references_.find(from);
    const auto [back, is_new] = back_.try_emplace(to, from);
    if (known ? *known != to : !is_new) return differs("another object there");
    if (known) return {};
    references_.add(from, to);
    pairs_.push_back({from, to, path});
    return {};
  }

  [[nodiscard]] Result<Opened> open(const Pair& pair) const {
    Opened opened{Handle(open_object(from_, pair.from)), Handle(open_object(to_, pair.to))};
    if (!opened.from || !opened.to) return fail_library(EIO, "it cannot be opened");
    return opened;
  }

  // Pairs -----------------------------------------------------------------------------------------------------------

  Result<> meet_what_it_has(const Pair& pair) {
    CODECFS_ASSIGN(const Opened opened, open(pair));
    const H5I_type_t kind = H5Iget_type(opened.from.get());
    if (H5Iget_type(opened.to.get()) != kind) return differs("another kind of object");
    CODECFS_ASSIGN(std::vector<std::string> names, attribute_names(opened.from.get()));
    CODECFS_ASSIGN(const std::vector<std::string> others, attribute_names(opened.to.get()));
    if (names != others) return differs("other attributes");
    for (const std::string& name : names) {
      const Handle from(H5Aopen(opened.from.get(), name.c_str(), H5P_DEFAULT));
      const Handle to(H5Aopen(opened.to.get(), name.c_str(), H5P_DEFAULT));
      CODECFS_TRY(about("attribute " + as_utf8(name),
                        meet_types(Handle(H5Aget_type(from.get())), Handle(H5Aget_type(to.get())))));
    }
    if (kind == H5I_DATASET)
      return meet_types(Handle(H5Dget_type(opened.from.get())), Handle(H5Dget_type(opened.to.get())));
    if (kind == H5I_DATATYPE && H5Tequal(opened.from.get(), opened.to.get()) <= 0) return differs("another type");
    if (kind == H5I_GROUP) return meet_links(opened, pair.path == "/" ? "" : pair.path);
    return {};
  }

  Result<> meet_types(const Handle& from, const Handle& to) {
    const htri_t committed = H5Tcommitted(from.get());
    if (committed < 0) return fail_library(EIO, "its type");
    if (H5Tcommitted(to.get()) != committed || H5Tequal(from.get(), to.get()) <= 0) return differs("another type");
    return committed > 0 ? meet(from.get(), to.get(), "a committed type") : Result<>();
  }

  Result<> meet_links(const Opened& groups, const std::string& inside) {
    CODECFS_ASSIGN(const std::vector<StoredLink> links, stored_links(groups.from.get()));
    CODECFS_ASSIGN(const std::vector<StoredLink> others, stored_links(groups.to.get()));
    if (links.size() != others.size()) return differs("other links");
    for (size_t i = 0; i < links.size(); ++i) {
      const StoredLink& link = links[i];
      const StoredLink& other = others[i];
      if (link.name != other.name || link.encoding != other.encoding || link.info.type != other.info.type)
        return differs("other links");
      const std::string path = fmt::format("{}/{}", inside, as_utf8(link.name));
      if (link.info.type == H5L_TYPE_HARD) {
        CODECFS_TRY(about(path, meet(link.info.address, other.info.address, path)));
      } else {
        CODECFS_TRY(about(path, compare_link_values(groups, link, other)));
      }
    }
    return {};
  }

  Result<> compare_link_values(const Opened& groups, const StoredLink& link, const StoredLink& other) const {
    // libhdf5 only reads links of a registered class; the copy was created with a placeholder class.
    if (link.info.type >= H5L_TYPE_UD_MIN && H5Lis_registered(link.info.type) <= 0) return {};
    if (link.info.text_size != other.info.text_size) return differs("a link to something else");
    if (link.info.text_size > file_bytes_) return fail(EIO, "the link has more bytes than the file");
    std::string value(link.info.text_size + 1, '\0');
    std::string copied = value;
    const char* const name = link.name.c_str();
    if (H5Lget_val(groups.from.get(), name, value.data(), link.info.text_size, H5P_DEFAULT) < 0 ||
        H5Lget_val(groups.to.get(), name, copied.data(), link.info.text_size, H5P_DEFAULT) < 0)
      return fail_library(EIO, "the link cannot be read");
    return value == copied ? Result<>() : differs("a link to something else");
  }

  // Content ---------------------------------------------------------------------------------------------------------

  Result<> compare_content(const Pair& pair) const {
    Handle properties;
    {
      CODECFS_ASSIGN(const Opened opened, open(pair));
      CODECFS_TRY(compare_attributes(opened));
      if (H5Iget_type(opened.from.get()) != H5I_DATASET) return {};
      properties = Handle(H5Dget_create_plist(opened.from.get()));
      if (!properties) return fail_library(EIO, "its properties");
    }
    // Filters can only be registered while the dataset is closed.
    CODECFS_ASSIGN(const bool readable, provide_filters(pair, properties.get()));
    CODECFS_ASSIGN(const Opened opened, open(pair));
    return compare_datasets(opened, properties.get(), readable);
  }

  [[nodiscard]] Result<> compare_attributes(const Opened& opened) const {
    CODECFS_ASSIGN(const std::vector<std::string> names, attribute_names(opened.from.get()));
    for (const std::string& name : names) {
      const Handle from(H5Aopen(opened.from.get(), name.c_str(), H5P_DEFAULT));
      const Handle to(H5Aopen(opened.to.get(), name.c_str(), H5P_DEFAULT));
      const Handle space(H5Aget_space(from.get()));
      const Handle other_space(H5Aget_space(to.get()));
      const bool same = H5Sextent_equal(space.get(), other_space.get()) > 0;
      CODECFS_TRY(about("attribute " + as_utf8(name),
                        same ? compare_attribute_values(from.get(), to.get(), references_) : differs("another shape")));
    }
    return {};
  }

  /// Whether libhdf5 has all filters of a dataset.
  static Result<bool> provide_filters(const Pair& pair, hid_t properties) {
    CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(properties));
    for (const FilterStage& stage : chain) {
      const auto id = static_cast<H5Z_filter_t>(stage.id);
      unsigned can = 0;
      if (make_available(stage) && H5Zfilter_avail(id) > 0 && H5Zget_filter_info(id, &can) >= 0 &&
          (can & H5Z_FILTER_CONFIG_DECODE_ENABLED) != 0)
        continue;
      log::warning("{}: filter {} is missing, so its chunks were compared as they are stored, and not decoded",
                   pair.path, id);
      return false;
    }
    return true;
  }

  Result<> compare_datasets(const Opened& opened, hid_t properties, bool readable) const {
    const hid_t from = opened.from.get();
    const hid_t to = opened.to.get();
    const Handle space(H5Dget_space(from));
    const Handle other_space(H5Dget_space(to));
    const Handle other_properties(H5Dget_create_plist(to));
    if (H5Sextent_equal(space.get(), other_space.get()) <= 0) return differs("another shape");
    if (H5Pequal(properties, other_properties.get()) <= 0)
      CODECFS_TRY(compare_properties(properties, other_properties));
    const Handle type(H5Dget_type(from));
    CODECFS_TRY(compare_fill_references(type.get(), properties, other_properties.get(), from_, to_, references_));
    const H5D_layout_t layout = H5Pget_layout(properties);
    if (layout == H5D_VIRTUAL || H5Pget_external_count(properties) > 0) return {};
    if (layout == H5D_CHUNKED) return compare_chunks(opened, properties, other_properties.get(), readable);
    CODECFS_ASSIGN(const bool stored, is_data_stored(from, file_bytes_));
    CODECFS_ASSIGN(const bool copied, is_data_stored(to, file_bytes_));
    if (!stored && !copied) return {};
    ProgressReporter::add_to_current(2 * H5Dget_storage_size(from));
    CODECFS_ASSIGN(const ElementComparison elements, ElementComparison::make(from, to, references_));
    return elements.compare_all();
  }

  /// H5Pequal also compares values that are not stored, so compare the relevant ones.
  static Result<> compare_properties(hid_t from, const Handle& to) {
    CODECFS_ASSIGN(const std::vector<FilterStage> before, stored_chain(from));
    CODECFS_ASSIGN(const std::vector<FilterStage> after, stored_chain(to.get()));
    if (!is_same_chain(before, after)) return differs("other filters");
    if (H5Pget_layout(from) != H5Pget_layout(to.get())) return differs("another layout");
    return {};
  }

  Result<> compare_chunks(const Opened& opened, hid_t properties, hid_t other_properties, bool readable) const {
    const hid_t from = opened.from.get();
    const hid_t to = opened.to.get();
    CODECFS_ASSIGN(const ChunkList chunks, ChunkList::of(from, properties));
    CODECFS_ASSIGN(const ChunkList copied, ChunkList::of(to, other_properties));
    if (chunks.grid.chunks() != copied.grid.chunks()) return differs("chunks of another shape");
    if (!std::ranges::includes(copied.stored, chunks.stored)) return differs("other chunks");
    CODECFS_ASSIGN(const bool made_anew, data_needs_library(from));
    CODECFS_ASSIGN(const ElementComparison elements, ElementComparison::make(from, to, references_));
    bool reads_values = readable;
    for (const uint64_t number : copied.stored) {
      const bool stored = std::ranges::binary_search(chunks.stored, number);
      const auto compared = [&]() -> Result<> {
        if (stored && !made_anew) {
          CODECFS_ASSIGN(const RawChunk before, RawChunk::read(from, chunks, number, file_bytes_));
          CODECFS_ASSIGN(const RawChunk after, RawChunk::read(to, chunks, number, file_bytes_));
          ProgressReporter::add_to_current(2 * before.bytes.size());
          if (before != after) return differs("other bytes");
          // The filters and the type are the same, so one chunk shows that libhdf5 decodes both in the same way.
          if (!reads_values) return {};
          reads_values = false;
          return elements.compare_box(chunks.start_of(number), chunks.extent_of(number));
        }
        if (readable) return elements.compare_box(chunks.start_of(number), chunks.extent_of(number));
        if (!stored) return fail(EIO, "it is only stored in the copy, and a filter to compare it is missing");
        return {};
      };
      CODECFS_TRY(about("chunk " + chunks.grid.name_of(number), compared()));
    }
    return {};
  }

  hid_t from_;
  hid_t to_;
  uint64_t file_bytes_;
  ReferenceMap references_;
  std::unordered_map<uint64_t, uint64_t> back_;  // objects of the copy to their originals
  std::vector<Pair> pairs_;
};

}  // namespace

Result<> compare_files(hid_t from, hid_t to, uint64_t file_bytes) {
  return FileComparison(from, to, file_bytes).compare();
}

}  // namespace codecfs::hdf5
