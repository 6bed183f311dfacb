#include "backends/worker/wire.h"

#include <memory>

#include "base/terminal_text.h"
#include "model/json.h"

namespace codecfs::worker {
namespace {

constexpr unsigned kDeepest = 64;  // nested types; parse_dtype() allows 32

}  // namespace

// CBOR, because JSON text has no NaN and no text that is not UTF-8.
void Encoder::put(const JsonValue& value) {
  std::string bytes;
  Json::to_cbor(*value, bytes);
  put(bytes);
}

void Encoder::put(const Entry& entry) {
  put(entry.name);
  put(entry.kind);
  put(entry.object);
  put(entry.target);
}

void Encoder::put(const Attribute& attribute) {
  put(attribute.name);
  put(attribute.value);
  put(attribute.type);
  put(attribute.stored_type);
}

void Encoder::put(const GroupDimension& dimension) {
  put(dimension.name);
  put(dimension.length);
  put(dimension.is_unlimited);
}

void Encoder::put(const FilterStage& stage) {
  put(stage.id);
  put(stage.parameters);
  put(stage.codec);
  put(stage.name);
  put(stage.optional);
  put(stage.has_flag);
  put(stage.is_complete);
}

void Encoder::put(const DataType& type) {
  put(type.kind);
  put(type.order);
  put(type.size);
  put(type.unit);
  put(type.members);
}

void Encoder::put(const TypeMember& member) {
  put(member.name);
  put(member.type);
  put(member.shape);
}

void Encoder::put(const ChunkGrid& grid) {
  put(grid.shape());
  put(grid.chunks());
}

void Encoder::put(const ChunkInfo& info) {
  put(info.stored);
  put(info.stored_size);
  put(info.offset);
  put(info.filter_mask);
}

void Encoder::put(const Variable& variable) {
  put(variable.type);
  put(variable.type_text);
  put(variable.zarr3_type);
  put(variable.stored_type);
  put(variable.grid);
  put(variable.storage);
  put(variable.max_shape);
  put(variable.chunk_bytes);
  put(variable.fill_value);
  put_bytes(variable.fill);
  put(variable.is_fill_undefined);
  put(variable.is_fill_unmarked);
  put(variable.object_codec);
  put(variable.filters);
  put(variable.attributes);
  put(variable.left_out_attributes);
  put(variable.dimensions);
  put(variable.ended_strings);
  put(variable.unreadable);
  put(variable.unreadable_attributes);
}

void Encoder::put(const VariableSummary& summary) {
  put(summary.facts != nullptr);
  if (summary.facts) put(*summary.facts);
  put(summary.error);
  put(summary.is_counted);
  put(summary.stored_chunks);
  put(summary.stored_bytes);
  put(summary.masked_chunks);
}

void Encoder::put(const hdf5::StoredPlaces& places) {
  put(places.layout);
  put(places.slot);
  put(places.generation);
  put(places.places);
}

void Encoder::put(const hdf5::IsolatedSource::Layout& layout) {
  put(layout.number);
  put(layout.name);
  put(layout.facts);
  put(layout.is_direct);
}

std::string_view Decoder::take(size_t size) {
  if (failed_ || size > head_.size()) {
    failed_ = true;
    return {};
  }
  const std::string_view bytes = head_.substr(0, size);
  head_.remove_prefix(size);
  return bytes;
}

std::string_view Decoder::take_text() {
  uint64_t size = 0;
  get(size);
  return take(size);
}

void Decoder::get(Error& error) {
  get(error.code);
  get(error.reason);
  error.reason = printable(error.reason);
}

void Decoder::get(JsonValue& value) {
  const std::string_view bytes = take_text();
  if (failed_) return;
  Json parsed = Json::from_cbor(bytes, true, /*allow_exceptions=*/false);
  if (parsed.is_discarded())
    failed_ = true;
  else
    value = std::move(parsed);
}

void Decoder::get(Entry& entry) {
  get(entry.name);
  get(entry.kind);
  get(entry.object);
  get(entry.target);
  if (entry.kind > EntryKind::file) failed_ = true;
}

void Decoder::get(Attribute& attribute) {
  get(attribute.name);
  get(attribute.value);
  get(attribute.type);
  get(attribute.stored_type);
}

void Decoder::get(GroupDimension& dimension) {
  get(dimension.name);
  get(dimension.length);
  get(dimension.is_unlimited);
}

void Decoder::get(FilterStage& stage) {
  get(stage.id);
  get(stage.parameters);
  get(stage.codec);
  get(stage.name);
  get(stage.optional);
  get(stage.has_flag);
  get(stage.is_complete);
}

void Decoder::get(DataType& type) {
  if (++depth_ > kDeepest) failed_ = true;
  get(type.kind);
  get(type.order);
  get(type.size);
  get(type.unit);
  get(type.members);
  --depth_;
}

void Decoder::get(TypeMember& member) {
  get(member.name);
  get(member.type);
  get(member.shape);
}

void Decoder::get(ChunkGrid& grid) {
  std::vector<uint64_t> shape;
  std::vector<uint64_t> chunks;
  get(shape);
  get(chunks);
  if (failed_) return;
  if (auto made = ChunkGrid::make(std::move(shape), std::move(chunks)))
    grid = *std::move(made);
  else
    failed_ = true;
}

void Decoder::get(ChunkInfo& info) {
  get(info.stored);
  get(info.stored_size);
  get(info.offset);
  get(info.filter_mask);
}

void Decoder::get(Variable& variable) {
  get(variable.type);
  get(variable.type_text);
  get(variable.zarr3_type);
  get(variable.stored_type);
  get(variable.grid);
  get(variable.storage);
  get(variable.max_shape);
  get(variable.chunk_bytes);
  get(variable.fill_value);
  get_bytes(variable.fill);
  get(variable.is_fill_undefined);
  get(variable.is_fill_unmarked);
  get(variable.object_codec);
  get(variable.filters);
  get(variable.attributes);
  get(variable.left_out_attributes);
  get(variable.dimensions);
  get(variable.ended_strings);
  get(variable.unreadable);
  get(variable.unreadable_attributes);
  const uint64_t element = variable.type.size;
  for (const EndedString& string : variable.ended_strings)
    if (string.offset > element || string.size > element - string.offset) failed_ = true;
  if (variable.storage > Storage::virtual_sources) failed_ = true;
}

void Decoder::get(VariablePtr& variable) {
  auto made = std::make_shared<Variable>();
  get(*made);
  variable = std::move(made);
}

void Decoder::get(VariableSummary& summary) {
  bool has_facts = false;
  get(has_facts);
  if (has_facts) get(summary.facts);
  get(summary.error);
  get(summary.is_counted);
  get(summary.stored_chunks);
  get(summary.stored_bytes);
  get(summary.masked_chunks);
  if (!has_facts && !summary.error) failed_ = true;
}

void Decoder::get(hdf5::StoredPlaces& places) {
  get(places.layout);
  get(places.slot);
  get(places.generation);
  get(places.places);
  if (places.slot >= hdf5::SharedState{}.generations.size()) failed_ = true;
}

void Decoder::get(hdf5::IsolatedSource::Layout& layout) {
  get(layout.number);
  get(layout.name);
  get(layout.facts);
  get(layout.is_direct);
}

void Decoder::get_bytes(std::vector<std::byte>& bytes) {
  const std::string_view text = take_text();
  bytes.resize(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
}

void Decoder::get(Buffer& bytes) {
  auto copied = Buffer::copy_of(std::exchange(bulk_, {}));
  if (copied)
    bytes = *std::move(copied);
  else
    failed_ = true;
}

}  // namespace codecfs::worker
