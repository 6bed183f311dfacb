#pragma once
// Arguments and results of the interfaces of a Source as bytes, for calls between processes of this program: fixed-size
// integers in the machine's byte order, lengths before what has one. The bytes of chunks travel beside them (`bulk`).
//
// A Decoder does not trust its bytes: every value that they cannot contain sets failed(), after which all values are
// empty.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/source/isolated_source.h"
#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::worker {

class Encoder {
 public:
  std::string head;
  Bytes bulk;    // refers to an argument
  Buffer owned;  // the bulk, if it is a result

  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    head.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(std::string_view text) {
    put(uint64_t{text.size()});
    head += text;
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const struct stat& status) { put_raw(status); }
  void put(const struct statvfs& numbers) { put_raw(numbers); }
  void put(const Error& error) {
    put(error.code);
    put(error.reason);
  }
  void put(const JsonValue& value);
  void put(const Entry& entry);
  void put(const UnreadableMember& member) {
    put(member.name);
    put(member.error);
  }
  void put(const LeftOutAttribute& attribute) {
    put(attribute.name);
    put(attribute.error);
  }
  void put(const Members& members) {
    put(members.entries);
    put(members.unreadable);
  }
  void put(const Attribute& attribute);
  void put(const GroupDimension& dimension);
  void put(const FilterStage& stage);
  void put(const DataType& type);
  void put(const TypeMember& member);
  void put(const EndedString& string) {
    put(string.offset);
    put(string.size);
  }
  void put(const ChunkGrid& grid);
  void put(const ChunkInfo& info);
  void put(const Variable& variable);
  void put(const VariableSummary& summary);
  void put(const hdf5::StoredPlace& place) { put_raw(place); }
  void put(const hdf5::StoredPlaces& places);
  void put(const hdf5::IsolatedSource::Layout& layout);
  void put(const hdf5::IsolatedSource::ManyChunks& chunks) {
    put(chunks.numbers);
    put(chunks.sizes);
    put(chunks.chain);
    put(chunks.filter_masks);
  }
  void put(filters::EncodedChunk chunk) {
    put(chunk.filter_mask);
    put(std::move(chunk.bytes));
  }
  void put(hdf5::FetchedChunk chunk) {
    put(chunk.layout);
    put(std::move(chunk.encoded));
  }
  void put(const VariablePtr& variable) { put(*variable); }
  void put(Bytes bytes) { bulk = bytes; }
  void put(Buffer bytes) {
    owned = std::move(bytes);
    bulk = owned.bytes();
  }
  void put(DecodedChunk chunk) {
    put(chunk.stored_size);
    put(std::move(chunk.bytes));
  }
  template <class T>
  void put(std::optional<T> value) {
    put(value.has_value());
    if (value) put(*std::move(value));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(std::span<const T>(values));
  }
  template <class T>
    requires(!std::is_same_v<T, std::byte>)
  void put(std::span<const T> values) {
    put(uint64_t{values.size()});
    if constexpr (std::is_arithmetic_v<T>)
      head.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    else
      for (const T& value : values) put(value);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    put(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  template <class T>
  void put(Result<T> result) {
    put(result.has_value());
    if (!result)
      put(result.error());
    else if constexpr (!std::is_void_v<T>)
      put(*std::move(result));
  }

 private:
  template <class T>
  void put_raw(const T& value) {
    head.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
};

class Decoder {
 public:
  Decoder(std::string_view head, Bytes bulk) : head_(head), bulk_(bulk) {}
  [[nodiscard]] bool failed() const { return failed_; }

  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, struct stat> ||
             std::is_same_v<T, struct statvfs> || std::is_same_v<T, hdf5::StoredPlace>
  void get(T& value) {
    const std::string_view bytes = take(sizeof value);
    if constexpr (std::is_same_v<T, bool>)
      value = !bytes.empty() && bytes[0] != 0;
    else if (!bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof value);
  }
  void get(std::string& text) { text = take_text(); }
  void get(Error& error);
  void get(JsonValue& value);
  void get(Entry& entry);
  void get(UnreadableMember& member) {
    get(member.name);
    get(member.error);
  }
  void get(LeftOutAttribute& attribute) {
    get(attribute.name);
    get(attribute.error);
  }
  void get(Members& members) {
    get(members.entries);
    get(members.unreadable);
  }
  void get(Attribute& attribute);
  void get(GroupDimension& dimension);
  void get(FilterStage& stage);
  void get(DataType& type);
  void get(TypeMember& member);
  void get(EndedString& string) {
    get(string.offset);
    get(string.size);
  }
  void get(ChunkGrid& grid);
  void get(ChunkInfo& info);
  void get(Variable& variable);
  void get(VariablePtr& variable);
  void get(VariableSummary& summary);
  void get(hdf5::StoredPlaces& places);
  void get(hdf5::IsolatedSource::Layout& layout);
  void get(hdf5::IsolatedSource::ManyChunks& chunks) {
    get(chunks.numbers);
    get(chunks.sizes);
    get(chunks.chain);
    get(chunks.filter_masks);
  }
  void get(filters::EncodedChunk& chunk) {
    get(chunk.filter_mask);
    get(chunk.bytes);
  }
  void get(hdf5::FetchedChunk& chunk) {
    get(chunk.layout);
    get(chunk.encoded);
  }
  void get(Bytes& bytes) { bytes = std::exchange(bulk_, {}); }
  void get(Buffer& bytes);
  void get(DecodedChunk& chunk) {
    get(chunk.stored_size);
    get(chunk.bytes);
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool exists = false;
    get(exists);
    if (exists) get(value.emplace());
  }
  template <class T>
  void get(std::vector<T>& values) {
    uint64_t count = 0;
    get(count);
    if constexpr (std::is_arithmetic_v<T>) {
      const std::string_view bytes = take(count > head_.size() / sizeof(T) ? SIZE_MAX : count * sizeof(T));
      values.resize(bytes.size() / sizeof(T));
      if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      // Each item takes a byte or more.
      if (count > head_.size()) failed_ = true;
      for (uint64_t i = 0; i < count && !failed_; ++i) get(values.emplace_back());
    }
  }
  void get_bytes(std::vector<std::byte>& bytes);
  /// Sets `value`, or `error` with a code that is not 0.
  template <class T, class Value>
  void get_result(Value& value, Error& error) {
    bool succeeded = false;
    get(succeeded);
    if (!succeeded)
      get(error);
    else if constexpr (!std::is_void_v<T>)
      get(value);
    if (failed_ || (!succeeded && error.code == 0)) error = protocol_error().error();
  }
  template <class T>
  Result<T> get_result() {
    using Value = std::conditional_t<std::is_void_v<T>, bool, T>;
    Value value{};
    Error error{.code = 0, .reason = {}};
    get_result<T>(value, error);
    if (error.code != 0) return std::unexpected(std::move(error));
    if constexpr (std::is_void_v<T>)
      return {};
    else
      return value;
  }
  static std::unexpected<Error> protocol_error() {
    return fail(EIO, "a process of codecfs gave an answer that is none");
  }

 private:
  std::string_view take(size_t size);
  std::string_view take_text();

  std::string_view head_;
  Bytes bulk_;
  bool failed_ = false;
  unsigned depth_ = 0;  // of nested types
};

}  // namespace codecfs::worker
