// Opens a dataset: maps its type, shape, storage, filters and fill value to a Variable.

#include "backends/hdf5/source/dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/stored_enum.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/shape_facts.h"
#include "backends/hdf5/metadata/type_notes.h"
#include "base/endian.h"
#include "model/json.h"

namespace codecfs::hdf5 {
namespace {

using Lengths = std::array<hsize_t, H5S_MAX_RANK>;

// A fill value is a message of the object header, which holds less (in bytes). Larger elements have no other fill than
// zeros.
constexpr uint64_t kMaxFill = uint64_t{64} << 10;

// A char* from libhdf5, as vlen-utf8 stores it.
std::vector<std::byte> text_element(const char* stored) {
  const std::string text = stored == nullptr ? "" : as_utf8(stored);
  std::vector<std::byte> element(sizeof(uint32_t) + text.size());
  store_le(element.data(), static_cast<uint32_t>(text.size()));
  std::ranges::copy(std::as_bytes(std::span(text)), element.begin() + sizeof(uint32_t));
  return element;
}

// Owns variable-length values that libhdf5 allocated.
class OwnedText {
 public:
  OwnedText(hid_t type, void* value) : type_(type), value_(value), space_(H5Screate(H5S_SCALAR)) {}
  ~OwnedText() { reclaim(type_, space_.get(), value_); }
  OwnedText(const OwnedText&) = delete;
  OwnedText& operator=(const OwnedText&) = delete;

 private:
  hid_t type_;
  void* value_;
  Handle space_;
};

// The _FillValue attribute as one element of the dataset's type; empty if there is none or it does not convert.
std::vector<std::byte> fill_attribute(hid_t dataset, const MappedType& mapped) {
  if (H5Aexists(dataset, kFillAttribute) <= 0) return {};
  const Handle attribute(H5Aopen(dataset, kFillAttribute, H5P_DEFAULT));
  const Handle space(H5Aget_space(attribute.get()));
  if (!attribute || !space || H5Sget_simple_extent_npoints(space.get()) != 1) return {};
  if (mapped.text) {
    char* text = nullptr;
    if (H5Aread(attribute.get(), mapped.memory.get(), &text) < 0) return {};
    const OwnedText owned(mapped.memory.get(), &text);
    return text_element(text);
  }
  const Handle stored(H5Aget_type(attribute.get()));
  // For array elements the attribute has the base type.
  Handle base(mapped.shape.empty() ? H5Tcopy(mapped.memory.get()) : H5Tget_super(mapped.memory.get()));
  if (H5Tdetect_class(stored.get(), H5T_VLEN) > 0 || H5Tis_variable_str(stored.get()) > 0) return {};
  std::vector<std::byte> element(H5Tget_size(base.get()));
  if (H5Aread(attribute.get(), base.get(), element.data()) < 0) return {};
  element.resize(mapped.type.size);
  return element;
}

}  // namespace

Result<std::shared_ptr<Dataset>> Dataset::open(SourceFile& file, Handle dataset, uint64_t address, std::string name) {
  const LibraryLock lock;
  std::shared_ptr<Dataset> opened(new Dataset(file, std::move(dataset), std::move(name)));
  opened->address_ = address;
  CODECFS_TRY(opened->read_facts());
  return opened;
}

Result<> Dataset::show_shape(const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> shown = facts_.grid.shape();
  stored_shape_ = shown;
  std::ranges::copy(shape, shown.begin());
  CODECFS_ASSIGN(facts_.grid, ChunkGrid::make(std::move(shown), facts_.grid.chunks()));
  longer_ = true;
  return {};
}

hid_t Dataset::id() const {
  if (epoch_ == file_.epoch) return dataset_.get();
  const auto since = file_.outdated.find(address_);
  if (file_.loss_epoch > epoch_ || (since != file_.outdated.end() && since->second > epoch_)) {
    outdated_ = true;
    dataset_.reset();
    return H5I_INVALID_HID;
  }
  if (H5Iis_valid(dataset_.get()) <= 0) dataset_ = Handle(open_object(file_.file.get(), address_));
  epoch_ = file_.epoch;
  return dataset_.get();
}

Dataset::~Dataset() {
  const LibraryLock lock;
  if (file_.listing_owner == this) {
    file_.listing.reset();
    file_.listing_owner = nullptr;
  }
  mapped_.memory.reset();
  dataset_.reset();
}

Result<> Dataset::read_facts() {
  const Handle type(H5Dget_type(dataset_.get()));
  const Handle properties(H5Dget_create_plist(dataset_.get()));
  if (!type || !properties) return fail_library(EIO, "{}: its type cannot be read", name_);
  CODECFS_ASSIGN(mapped_, map_type(type.get()));
  stored_element_ = H5Tget_size(type.get());
  facts_.type = mapped_.type;
  facts_.zarr3_type = mapped_.zarr3_name;
  facts_.ended_strings = mapped_.ended;
  facts_.unreadable = mapped_.unreadable;
  if (mapped_.tell) facts_.type_text = type_text(type.get());
  facts_.stored_type = stored_type_of(type.get(), mapped_);
  if (mapped_.text) facts_.object_codec = Json{{"id", "vlen-utf8"}};

  switch (H5Pget_layout(properties.get())) {
    case H5D_COMPACT: facts_.storage = Storage::compact; break;
    case H5D_CHUNKED: facts_.storage = Storage::chunked; break;
    case H5D_VIRTUAL: facts_.storage = Storage::virtual_sources; break;
    case H5D_CONTIGUOUS:
      facts_.storage = H5Pget_external_count(properties.get()) > 0 ? Storage::external : Storage::contiguous;
      break;
    default: return fail_library(EIO, "{}: its storage layout", name_);
  }
  CODECFS_TRY(read_grid(properties.get()));
  CODECFS_TRY(read_fill(properties.get()));
  CODECFS_TRY(read_filters(properties.get()));
  return choose_read_path(properties.get());
}

Result<> Dataset::read_grid(hid_t properties) {
  const Handle space(H5Dget_space(dataset_.get()));
  Lengths dims{};
  Lengths most{};
  const int rank = H5Sget_simple_extent_dims(space.get(), dims.data(), most.data());
  if (!space || rank < 0 || rank > H5S_MAX_RANK) return fail_library(EIO, "{}: its shape cannot be read", name_);
  rank_ = static_cast<size_t>(rank);
  StoredShape stored;
  stored.dims.assign(dims.begin(), dims.begin() + rank);
  stored.is_null = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
  for (size_t d = 0; d < rank_; ++d)
    stored.most.push_back(most[d] == H5S_UNLIMITED ? std::nullopt : std::optional<uint64_t>(most[d]));
  if (facts_.storage == Storage::chunked) {
    Lengths chunk{};
    if (H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data()) != rank)
      return fail_library(EIO, "{}: the shape of its chunks", name_);
    stored.chunk.assign(chunk.begin(), chunk.begin() + rank);
    unsigned options = 0;
    raw_partial_chunks_ = H5Pget_chunk_opts(properties, &options) >= 0 &&
                          (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0 && H5Pget_nfilters(properties) > 0;
    StoredEnum<H5D_alloc_time_t> time;
    if (H5Pget_alloc_time(properties, time.place()) < 0) return fail_library(EIO, "{}: how it is stored", name_);
    allocates_all_ = !(time == H5D_ALLOC_TIME_INCR);
  }
  return set_shape(facts_, std::move(stored), {mapped_.shape, mapped_.text, stored_element_}, name_);
}

Result<> Dataset::read_fill(hid_t properties) {
  const uint64_t size = mapped_.text ? sizeof(uint32_t) : facts_.type.size;
  if (size <= kMaxFill) facts_.fill.assign(size, std::byte{0});
  if (facts_.unreadable) return {};
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(properties, &defined) < 0) return fail_library(EIO, "{}: its fill value", name_);
  StoredEnum<H5D_fill_time_t> time;
  if (H5Pget_fill_time(properties, time.place()) < 0) return fail_library(EIO, "{}: its fill value", name_);
  facts_.is_fill_undefined = defined == H5D_FILL_VALUE_UNDEFINED || time == H5D_FILL_TIME_NEVER;
  if (defined == H5D_FILL_VALUE_USER_DEFINED && mapped_.text) {
    char* text = nullptr;
    if (H5Pget_fill_value(properties, mapped_.memory.get(), &text) < 0)
      return fail_library(EIO, "{}: its fill value", name_);
    const OwnedText owned(mapped_.memory.get(), &text);
    facts_.fill = text_element(text);
  } else if (defined == H5D_FILL_VALUE_USER_DEFINED) {
    if (H5Tget_size(mapped_.memory.get()) > kMaxFill)
      return fail(EIO, "{}: a fill value of more than 64 KiB, which HDF5 cannot hold", name_);
    std::vector<std::byte> element(H5Tget_size(mapped_.memory.get()));
    if (H5Pget_fill_value(properties, mapped_.memory.get(), element.data()) < 0)
      return fail_library(EIO, "{}: its fill value", name_);
    if (element.size() < facts_.fill.size()) return fail(EIO, "{}: its fill value is too short", name_);
    std::copy_n(element.begin(), facts_.fill.size(), facts_.fill.begin());
    if (!facts_.fill.empty()) clear_behind_ends(facts_.ended_strings, facts_.type.size, facts_.fill);
  }
  if (facts_.fill.empty() || !file_.recorder->attributes(address_)) return {};
  const std::vector<std::byte> attribute = fill_attribute(dataset_.get(), mapped_);
  (void)file_.recorder->object(address_);
  if (attribute.empty() || attribute != facts_.fill) return {};
  if (mapped_.text)
    facts_.fill_value = Json(as_utf8(
        {reinterpret_cast<const char*>(facts_.fill.data()) + sizeof(uint32_t), facts_.fill.size() - sizeof(uint32_t)}));
  else
    facts_.fill_value = fill_json(facts_.type, facts_.fill);
  return {};
}

Result<> Dataset::read_filters(hid_t properties) {
  auto chain = stored_chain(properties);
  if (!chain) return fail(chain.error().code, "{}: {}", name_, chain.error().reason);
  facts_.filters = *std::move(chain);
  return {};
}

Result<> Dataset::choose_read_path(hid_t properties) {
  const bool only_library =
      std::ranges::any_of(facts_.filters, [](const FilterStage& stage) { return filters::only_in_libhdf5(stage.id); });
  const bool plain = !mapped_.text && !mapped_.converts;
  if (facts_.storage == Storage::chunked) {
    direct_ = plain && !only_library;
    if (!direct_) return {};
    auto pipeline = filters::Pipeline::make(facts_.filters, filters::shape_of_chunk(facts_));
    if (pipeline) {
      pipeline_ = std::move(*pipeline);
    } else {
      pipeline_error_ = std::move(pipeline.error());
    }
  } else if (facts_.storage == Storage::contiguous) {
    // If no space is allocated, the size is 0 and the offset is not an address, even with a user block added.
    storage_bytes_ = H5Dget_storage_size(dataset_.get());
    has_storage_ = storage_bytes_ > 0;
    if (has_storage_) offset_ = H5Dget_offset(dataset_.get());
    direct_ = plain;
  } else if (facts_.storage == Storage::external && plain) {
    CODECFS_ASSIGN(external_, ExternalStorage::make(properties, file_));
    direct_ = true;
  }
  return {};
}

}  // namespace codecfs::hdf5
