#include "filters/plugins/codec_messages.h"

#include <cstring>

namespace codecfs::filters {

MessageWriter& MessageWriter::number(uint64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

MessageWriter& MessageWriter::text(std::string_view value) {
  number(value.size());
  bytes_.append(value);
  return *this;
}

MessageWriter& MessageWriter::numbers(std::span<const uint64_t> values) {
  number(values.size());
  for (const uint64_t value : values) number(value);
  return *this;
}

MessageWriter& MessageWriter::parameters(std::span<const uint32_t> values) {
  return text({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

MessageWriter& MessageWriter::chunk(const ChunkShape& value) {
  number(value.bytes ? 1 : 0).number(value.bytes.value_or(0));
  number(static_cast<uint64_t>(value.type.kind)).number(static_cast<uint64_t>(value.type.order));
  return number(value.type.size).numbers(value.shape).numbers(value.chunks);
}

MessageWriter& MessageWriter::dataset(const DatasetToPrepare& value) {
  number(value.only_check ? 1 : 0).number(value.flags).parameters(value.parameters);
  return text(value.type).numbers(value.shape).numbers(value.chunks);
}

MessageWriter& MessageWriter::description(const PluginDescription& value) {
  number(value.hdf5 ? 1 : 0);
  if (const auto& filter = value.hdf5) {
    number(filter->id).text(filter->name).number(filter->encodes ? 1 : 0).number(filter->decodes ? 1 : 0);
    number(filter->has_can_apply ? 1 : 0).number(filter->has_set_local ? 1 : 0);
  }
  number(value.codecs.size());
  for (const PluginDescription::Codec& codec : value.codecs)
    text(codec.id).number(codec.hdf5_id).number(codec.has_modify_parameters ? 1 : 0).number(codec.is_default ? 1 : 0);
  number(value.problems.size());
  for (const std::string& problem : value.problems) text(problem);
  return *this;
}

MessageWriter& MessageWriter::head(const RequestHead& value) {
  return number(value.serial).number(value.seconds).number(value.memory);
}

MessageWriter& MessageWriter::head(const AnswerHead& value) {
  return number(static_cast<uint64_t>(value.code)).text(value.reason);
}

std::string_view MessageReader::take(uint64_t count) {
  if (count > rest_.size()) {
    is_valid_ = false;
    rest_ = {};
    return {};
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

uint64_t MessageReader::number() {
  uint64_t value = 0;
  if (const std::string_view bytes = take(sizeof value); !bytes.empty())
    std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string MessageReader::text() { return std::string(take(number())); }

std::vector<uint64_t> MessageReader::numbers() {
  std::vector<uint64_t> values;
  for (uint64_t left = number(); left > 0 && is_valid_; --left) values.push_back(number());
  return values;
}

std::vector<uint32_t> MessageReader::parameters() {
  const std::string_view bytes = take(number());
  std::vector<uint32_t> values(bytes.size() / sizeof(uint32_t));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(uint32_t));
  return values;
}

ChunkShape MessageReader::chunk() {
  ChunkShape value;
  const bool has_bytes = number() != 0;
  const uint64_t bytes = number();
  if (has_bytes) value.bytes = bytes;
  value.type.kind = static_cast<TypeKind>(number());
  value.type.order = static_cast<ByteOrder>(number());
  value.type.size = number();
  value.shape = numbers();
  value.chunks = numbers();
  return value;
}

DatasetToPrepare MessageReader::dataset() {
  DatasetToPrepare value;
  value.only_check = number() != 0;
  value.flags = static_cast<uint32_t>(number());
  value.parameters = parameters();
  value.type = text();
  value.shape = numbers();
  value.chunks = numbers();
  return value;
}

PluginDescription MessageReader::description() {
  PluginDescription value;
  if (number() != 0) {
    value.hdf5 = PluginDescription::Hdf5Filter{};
    PluginDescription::Hdf5Filter& filter = *value.hdf5;
    filter.id = static_cast<uint32_t>(number());
    filter.name = text();
    filter.encodes = number() != 0;
    filter.decodes = number() != 0;
    filter.has_can_apply = number() != 0;
    filter.has_set_local = number() != 0;
  }
  for (uint64_t left = number(); left > 0 && is_valid_; --left) {
    PluginDescription::Codec& codec = value.codecs.emplace_back();
    codec.id = text();
    codec.hdf5_id = static_cast<uint32_t>(number());
    codec.has_modify_parameters = number() != 0;
    codec.is_default = number() != 0;
  }
  for (uint64_t left = number(); left > 0 && is_valid_; --left) value.problems.push_back(text());
  return value;
}

RequestHead MessageReader::request_head() {
  RequestHead value;
  value.serial = static_cast<uint32_t>(number());
  value.seconds = static_cast<uint32_t>(number());
  value.memory = number();
  return value;
}

AnswerHead MessageReader::answer_head() {
  AnswerHead value;
  value.code = static_cast<int>(number());
  value.reason = text();
  return value;
}

}  // namespace codecfs::filters
