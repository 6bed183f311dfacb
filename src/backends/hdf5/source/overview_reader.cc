#include "backends/hdf5/source/overview_reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "backends/hdf5/format/cursor.h"
#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/shape_facts.h"
#include "backends/hdf5/metadata/type_map.h"
#include "backends/hdf5/metadata/type_notes.h"
#include "backends/hdf5/wal/file_driver.h"
#include "model/json.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMaxOverviewHeader = uint64_t{1} << 20;  // bytes; larger ones are left to libhdf5
constexpr size_t kMaxTypeBytes = size_t{16} << 20;          // of all that are kept
constexpr size_t kMaxTypes = 4096;                          // that are kept
constexpr size_t kLargestFill = size_t{64} << 10;           // bytes; larger elements have no other fill than zeros
constexpr uint64_t kTextBytes = 16;  // of a string of variable length in the file, without its text

/// The names that libhdf5 gives its own filters where the file stores none.
std::optional<std::string> name_of_filter(uint32_t id) {
  constexpr std::array<const char*, 7> kNames = {nullptr, "deflate", "shuffle",    "fletcher32",
                                                 "szip",  "nbit",    "scaleoffset"};
  if (id == 0 || id >= kNames.size() || H5Zfilter_avail(static_cast<H5Z_filter_t>(id)) <= 0) return std::nullopt;
  return kNames[id];
}

/// Whether the message itself is in the header, and no index refers to it.
bool is_in_header(const HeaderMessage& message) {
  constexpr uint8_t kConstant = 0x01;
  constexpr uint8_t kNotShared = 0x04;
  return (message.flags & ~(kConstant | kNotShared)) == 0;
}

struct ObjectKind {
  bool is_group = false;
  bool is_dataset = false;
};

/// None if the header has a message that is not known, or one too many.
std::optional<ObjectKind> object_kind_of(const ObjectHeader& header) {
  using enum MessageType;
  ObjectKind kind;
  for (const HeaderMessage* message : header.messages()) {
    if (!is_in_header(*message)) return std::nullopt;
    switch (message->type) {
      case symbol_table:
      case link_info: kind.is_group = true; break;
      case dataspace:
      case datatype:
      case layout: kind.is_dataset = true; break;
      case old_fill:
      case fill:
      case link:
      case group_info:
      case filters:
      case attribute:
      case comment:
      case old_time:
      case continuation:
      case time:
      case attribute_info:
      case references: break;
      default: return std::nullopt;
    }
  }
  if (kind.is_group == kind.is_dataset) return std::nullopt;
  if (kind.is_dataset && (header.count(link) > 0 || header.count(group_info) > 0)) return std::nullopt;
  for (const MessageType single : {symbol_table, link_info, old_fill, fill, filters, attribute_info, references})
    if (header.count(single) > 1) return std::nullopt;
  for (const MessageType single : {dataspace, datatype, layout})
    if (header.count(single) != (kind.is_dataset ? 1 : 0)) return std::nullopt;
  return kind;
}

const HeaderMessage* find_message(const ObjectHeader& header, MessageType type) {
  for (const HeaderMessage* message : header.messages())
    if (message->type == type) return message;
  return nullptr;
}

/// Whether all attributes are in the header.
bool has_all_attributes(const ObjectHeader& header) {
  const HeaderMessage* const info = find_message(header, MessageType::attribute_info);
  if (info == nullptr) return true;
  Cursor in{info->body};
  const uint64_t version = in.number(1);
  const uint64_t flags = in.number(1);
  if ((flags & 1) != 0) in.skip(2);
  const uint64_t heap = in.address();
  return !in.failed && version == 0 && flags <= 3 && heap == kNoAddress;
}

std::optional<uint64_t> link_count_of(const ObjectHeader& header) {
  const HeaderMessage* const message = find_message(header, MessageType::references);
  if (header.version() == 1)
    return message == nullptr && header.old_references() > 0 ? std::optional<uint64_t>(header.old_references())
                                                             : std::nullopt;
  if (message == nullptr) return uint64_t{1};
  Cursor in{message->body};
  const uint64_t version = in.number(1);
  const uint64_t count = in.number(4);
  return in.failed || version != 0 || count == 0 ? std::nullopt : std::optional(count);
}

}  // namespace

OverviewReader::OverviewReader(const SourceFile& file, uint64_t file_bytes, bool is_netcdf, uint64_t tree_entries)
    : file_(file),
      is_netcdf_(is_netcdf),
      window_([&file](uint64_t offset, MutableBytes to) { return file.bytes->read(offset, to); }, file_bytes),
      indexes_(window_, tree_entries) {}

std::unique_ptr<OverviewReader> OverviewReader::make(const SourceFile& file, bool is_netcdf) {
  const LoggedFile& bytes = *file.bytes;
  if (!file.not_writable || file.fetched || bytes.family() || bytes.locked_by_another() || bytes.missing_log() ||
      !bytes.is_in_source(0, bytes.size()) || marked_as_open(bytes.fd()))
    return nullptr;
  const auto driver = driver_info(bytes.fd());
  if (find_signature(bytes.fd()) != uint64_t{0} || !driver || driver->driver != DriverInfo::Driver::other ||
      driver->base != 0 || driver->file_bytes > bytes.size())
    return nullptr;
  const Handle properties(H5Fget_create_plist(file.file.get()));
  size_t address_bytes = 0;
  size_t length_bytes = 0;
  hsize_t user_block = 0;
  unsigned shared_indexes = 0;
  unsigned half_entries = 0;
  if (!properties || H5Pget_sizes(properties.get(), &address_bytes, &length_bytes) < 0 ||
      H5Pget_userblock(properties.get(), &user_block) < 0 ||
      H5Pget_shared_mesg_nindexes(properties.get(), &shared_indexes) < 0 ||
      H5Pget_istore_k(properties.get(), &half_entries) < 0)
    return nullptr;
  if (address_bytes != 8 || length_bytes != 8 || user_block != 0 || shared_indexes != 0) return nullptr;
  return std::unique_ptr<OverviewReader>(
      new OverviewReader(file, driver->file_bytes, is_netcdf, uint64_t{2} * half_entries));
}

std::optional<ObjectHeader> OverviewReader::read_header(uint64_t address) {
  if (address == 0 || !file_.recorder->object(address)) return std::nullopt;
  const auto read = [this](uint64_t offset, MutableBytes to) { return window_.read(offset, to); };
  auto header = ObjectHeader::read(read, FileFormat{}, address, kMaxOverviewHeader);
  if (!header || !header->has_stated_count()) return std::nullopt;
  return *std::move(header);
}

std::optional<ObjectTree::Outline> OverviewReader::outline(uint64_t address) {
  const auto header = read_header(address);
  const auto kind = header ? object_kind_of(*header) : std::nullopt;
  const auto references = kind ? link_count_of(*header) : std::nullopt;
  if (!references) return std::nullopt;
  ObjectTree::Outline outline;
  outline.info.type = kind->is_group ? H5O_TYPE_GROUP : H5O_TYPE_DATASET;
  outline.info.address = address;
  outline.info.references = *references;
  if (kind->is_group) return outline;  // nothing else is asked of groups
  if (!has_all_attributes(*header)) return std::nullopt;
  for (const HeaderMessage* message : header->messages()) {
    if (message->type != MessageType::attribute) continue;
    const auto attribute = parse_attribute(message->body);
    if (!attribute) return std::nullopt;
    ++outline.info.attributes;
    outline.has_name |= attribute->name == "NAME";
  }
  return outline;
}

const OverviewReader::KnownType* OverviewReader::type_of(Bytes encoded) {
  const std::string_view key(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  if (const auto known = types_.find(std::string(key)); known != types_.end())
    return known->second ? &*known->second : nullptr;
  if (types_.size() >= kMaxTypes || type_bytes_ > kMaxTypeBytes) {
    types_.clear();
    type_bytes_ = 0;
  }
  type_bytes_ += key.size();
  std::optional<KnownType>& found = types_[std::string(key)];
  // H5Tencode's form: the id of the message, a version, the message.
  constexpr size_t kSpare = 1024;  // libhdf5 is not told how long it is
  std::vector<std::byte> form{std::byte{3}, std::byte{0}};
  form.insert(form.end(), encoded.begin(), encoded.end());
  form.resize(form.size() + kSpare);
  const Handle decoded(decode_type(form.data(), form.size()));
  if (!decoded) return nullptr;
  auto mapped = map_type(decoded.get());
  if (!mapped) return nullptr;
  found.emplace();
  found->stored_type = stored_type_of(decoded.get(), *mapped);
  found->type = std::move(mapped->type);
  found->shape = std::move(mapped->shape);
  found->ended = std::move(mapped->ended);
  found->zarr3_name = std::move(mapped->zarr3_name);
  found->converts = mapped->converts;
  found->text = mapped->text;
  found->unreadable = std::move(mapped->unreadable);
  if (mapped->tell) found->type_text = hdf5::type_text(decoded.get());
  found->bytes = H5Tget_size(decoded.get());
  found->stored_bytes = Cursor{encoded, 4}.number(4);
  return &*found;
}

std::optional<OverviewReader::Dataset> OverviewReader::parse(uint64_t address, const ObjectHeader& header) {
  using enum MessageType;
  const auto kind = object_kind_of(header);
  if (!kind || !kind->is_dataset || !has_all_attributes(header) || header.count(fill) != 1) return std::nullopt;
  const auto body_of = [&](MessageType type) { return Bytes(find_message(header, type)->body); };
  Dataset dataset;
  const auto type_bytes = datatype_bytes(body_of(datatype));
  auto space = parse_dataspace(body_of(dataspace));
  const auto filling = parse_fill(body_of(fill));
  auto storage = parse_layout(body_of(layout));
  if (!type_bytes || !space || !filling || !storage) return std::nullopt;
  dataset.type = body_of(datatype).first(*type_bytes);
  dataset.space = *std::move(space);
  dataset.fill = *filling;
  dataset.layout = *std::move(storage);
  if (header.count(old_fill) > 0) {
    const auto old = parse_old_fill(body_of(old_fill));
    if (!old || !std::ranges::equal(*old, dataset.fill.value)) return std::nullopt;
  }
  if (header.count(MessageType::filters) > 0) {
    auto stages = parse_filters(body_of(MessageType::filters), name_of_filter);
    if (!stages) return std::nullopt;
    dataset.filters = *std::move(stages);
  }
  if (header.count(attribute) == 0) return dataset;
  // What libhdf5 reports of their types is damage of the attributes, and not of the object.
  if (!file_.recorder->attributes(address)) return std::nullopt;
  for (const HeaderMessage* message : header.messages()) {
    if (message->type != attribute) continue;
    auto parsed = parse_attribute(message->body);
    if (!parsed || type_of(parsed->type) == nullptr) return std::nullopt;
    dataset.attributes.push_back(*std::move(parsed));
  }
  (void)file_.recorder->object(address);
  return dataset;
}

// As Dataset::read_fill().
bool OverviewReader::set_fill(Variable& facts, const Dataset& dataset, const KnownType& type) {
  const uint64_t size = type.text ? sizeof(uint32_t) : facts.type.size;
  if (size <= kLargestFill) facts.fill.assign(size, std::byte{0});
  if (facts.unreadable) return true;
  facts.is_fill_undefined = dataset.fill.is_undefined || !dataset.fill.is_written;
  const Bytes value = dataset.fill.value;
  if (!value.empty()) {
    if (type.text || type.converts || value.size() != type.stored_bytes || type.stored_bytes != type.bytes ||
        value.size() < facts.fill.size() || value.size() > kLargestFill)
      return false;
    std::copy_n(value.begin(), facts.fill.size(), facts.fill.begin());
    if (!facts.fill.empty()) clear_behind_ends(facts.ended_strings, facts.type.size, facts.fill);
  }
  const auto attribute = std::ranges::find(dataset.attributes, kFillAttribute, &AttributeMessage::name);
  if (attribute == dataset.attributes.end()) return true;
  if (type.text || type.converts || !type.shape.empty() || attribute->space.is_null || attribute->space.count != 1 ||
      !std::ranges::equal(attribute->type, dataset.type) || facts.fill.size() != attribute->data.size())
    return false;
  if (std::ranges::equal(attribute->data, facts.fill)) facts.fill_value = fill_json(facts.type, facts.fill);
  return true;
}

// As summarize().
bool OverviewReader::set_totals(VariableSummary& summary, const Variable& facts, const Dataset& dataset,
                                const KnownType& type) {
  const LayoutMessage& layout = dataset.layout;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(dataset.space.count, type.stored_bytes, &bytes)) return false;
  if (facts.storage == Storage::chunked) {
    if (layout.chunk.size() != dataset.space.dims.size() || layout.element != type.stored_bytes) return false;
  } else if (facts.storage == Storage::compact) {
    if (!dataset.filters.empty() || (!dataset.space.is_null && layout.bytes != bytes)) return false;
  } else {
    const bool is_stored = layout.address != kNoAddress;
    if (!dataset.filters.empty() || (is_stored && !dataset.space.is_null && layout.bytes != bytes)) return false;
    if (is_stored && (layout.bytes > window_.file_bytes() || layout.address > window_.file_bytes() - layout.bytes))
      return false;
  }
  const uint64_t count = facts.grid.count();
  if (facts.storage == Storage::chunked) {
    const auto totals = indexes_.totals({layout, dataset.space, dataset.filters.size()});
    if (!totals) return count > VariableSummary::kMaxChunks;  // which are left to the caller
    summary.is_counted = true;
    summary.stored_chunks = totals->chunks;
    summary.stored_bytes = totals->bytes;
    summary.masked_chunks = totals->masked;
    return true;
  }
  if (count > VariableSummary::kMaxChunks) return true;
  summary.is_counted = true;
  if (facts.storage == Storage::contiguous && (layout.address == kNoAddress || layout.bytes == 0)) return true;
  summary.stored_chunks = count;
  uint64_t total = type.text ? kTextBytes : facts.type.size;
  for (const uint64_t length : facts.grid.shape())
    if (__builtin_mul_overflow(total, length, &total)) return false;
  summary.stored_bytes = total;
  return true;
}

std::optional<VariableSummary> OverviewReader::summary(uint64_t address, const std::string& name) {
  const auto header = read_header(address);
  if (!header) return std::nullopt;
  const auto dataset = parse(address, *header);
  if (!dataset) return std::nullopt;
  const KnownType* const type = type_of(dataset->type);
  if (type == nullptr) return std::nullopt;
  const bool is_chunked = dataset->layout.storage == Storage::chunked;
  // A dimension of netCDF may be longer than what is stored.
  if (is_netcdf_ && is_chunked && std::ranges::any_of(dataset->space.most, [](const auto& most) { return !most; }))
    return std::nullopt;
  if (is_chunked && (dataset->space.is_null || dataset->layout.chunk.size() != dataset->space.dims.size()))
    return std::nullopt;
  auto facts = std::make_shared<Variable>();
  facts->type = type->type;
  facts->ended_strings = type->ended;
  facts->unreadable = type->unreadable;
  facts->type_text = type->type_text;
  facts->zarr3_type = type->zarr3_name;
  facts->stored_type = type->stored_type;
  if (type->text) facts->object_codec = Json{{"id", "vlen-utf8"}};
  facts->storage = dataset->layout.storage;
  facts->filters = dataset->filters;
  const Dataspace& space = dataset->space;
  if (!set_shape(*facts, {space.dims, space.most, space.is_null, dataset->layout.chunk},
                 {type->shape, type->text, type->bytes}, name))
    return std::nullopt;
  VariableSummary summary;
  if (!set_fill(*facts, *dataset, *type) || !set_totals(summary, *facts, *dataset, *type)) return std::nullopt;
  summary.facts = std::move(facts);
  return summary;
}

}  // namespace codecfs::hdf5
