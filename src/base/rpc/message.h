#pragma once
// Values as bytes, for calls between processes of this program: numbers of a fixed size in the machine's byte order,
// and lengths before what has one. A struct is described once; writing, reading and checking follow from that:
//
//   template <> inline constexpr auto rpc::fields<Entry> = [](auto& it) { return std::tie(it.name, it.kind); };
//   template <> inline constexpr auto rpc::is_valid<Entry> = [](const Entry& entry) { return entry.kind <= kLast; };
//
// The bytes of chunks (Bytes, Buffer) travel beside the others (the head), as the bulk: one of a message, without a
// copy in the Encoder.
//
// One thread at a time. Exceptions: std::bad_alloc.

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::rpc {

/// The members of a struct that are sent, in this order: a function that ties them.
template <class T>
inline constexpr auto fields = nullptr;
/// What the types of a value do not say about it: a function that returns whether a received value has a meaning.
template <class T>
inline constexpr auto is_valid = [](const T&) { return true; };
/// Whether a value is sent as the bytes that it has in memory.
template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
/// Types without fields: a specialisation has put(Encoder&, const T&) and get(Decoder&, T&).
template <class T>
struct Form;

template <class T>
concept Plain = is_plain<T>;
template <class T>
concept Described = !std::is_null_pointer_v<std::remove_const_t<decltype(fields<T>)>>;
template <class T>
concept Formed = requires { &Form<T>::get; };

class Encoder {
 public:
  std::string head;
  Bytes bulk;    // refers to a value that was put, or to `owned`
  Buffer owned;  // a Buffer that was put

  template <Plain T>
  void put(T value) {
    head.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(std::string_view text) {
    put(uint64_t{text.size()});
    head += text;
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(Bytes bytes) { bulk = bytes; }
  void put(Buffer bytes) {
    owned = std::move(bytes);
    bulk = owned.bytes();
  }
  void put(const Error& error) {
    put(error.code);
    put(error.reason);
  }
  template <class T>
    requires Described<std::remove_cvref_t<T>>
  void put(T&& value) {
    const auto put_one = [&](auto& member) {
      if constexpr (std::is_lvalue_reference_v<T>)
        put(member);
      else
        put(std::move(member));
    };
    std::apply([&](auto&... members) { (put_one(members), ...); }, fields<std::remove_cvref_t<T>>(value));
  }
  template <Formed T>
  void put(const T& value) {
    Form<T>::put(*this, value);
  }
  template <class T>
    requires(!std::is_same_v<T, std::byte>)
  void put(std::span<const T> values) {
    put(uint64_t{values.size()});
    if constexpr (Plain<T>)
      head.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    else
      for (const T& value : values) put(value);
  }
  /// Elements of any type; also bytes, which are then in the head.
  template <class T>
  void put(const std::vector<T>& values) {
    if constexpr (std::is_same_v<T, std::byte>)
      put(std::string_view(reinterpret_cast<const char*>(values.data()), values.size()));
    else
      put(std::span<const T>(values));
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  void put(std::optional<T>&& value) {
    put(value.has_value());
    if (value) put(*std::move(value));
  }
  template <class A, class B>
  void put(const std::pair<A, B>& values) {
    put(values.first);
    put(values.second);
  }
  template <class T>
  void put(const std::shared_ptr<const T>& value) {
    put(value != nullptr);
    if (value) put(*value);
  }
  template <class T>
  void put(Result<T> result) {
    put(result.has_value());
    if (!result)
      put(result.error());
    else if constexpr (!std::is_void_v<T>)
      put(*std::move(result));
  }
};

/// Does not trust its bytes: each value that they cannot contain, or that is_valid() refuses, sets failed(); what is
/// read afterwards stays as it was. Memory for a value grows with the bytes that are there, not with the lengths that
/// they tell; nesting is limited.
class Decoder {
 public:
  /// `head` and `bulk` must outlive this, and what refers to them: std::string_view, Bytes.
  explicit Decoder(std::string_view head, Bytes bulk = {}) : head_(head), bulk_(bulk) {}
  [[nodiscard]] bool failed() const { return failed_; }
  /// Whether all was read, and nothing else is there.
  [[nodiscard]] bool is_complete() const { return !failed_ && head_.empty() && bulk_.empty(); }
  void refuse() { failed_ = true; }

  template <class T>
  void get(T& value) {
    read(value);
    if (!failed_ && !is_valid<T>(value)) failed_ = true;
  }
  template <class T>
  T get() {
    T value{};
    get(value);
    return value;
  }

 private:
  template <Plain T>
  void read(T& value) {
    const std::string_view bytes = take(sizeof value);
    if (bytes.empty()) return;
    if constexpr (std::is_same_v<T, bool>)
      value = bytes[0] != 0;
    else
      std::memcpy(&value, bytes.data(), sizeof value);
  }
  void read(std::string_view& text) { text = take(get<uint64_t>()); }
  void read(std::string& text) { text = get<std::string_view>(); }
  void read(Bytes& bytes) { bytes = std::exchange(bulk_, {}); }
  void read(Buffer& bytes);
  void read(Error& error);  // its reason is printable
  template <Described T>
  void read(T& value) {
    if (++depth_ > kDeepest) failed_ = true;
    std::apply([&](auto&... members) { ((failed_ ? void() : get(members)), ...); }, fields<T>(value));
    --depth_;
  }
  template <Formed T>
  void read(T& value) {
    Form<T>::get(*this, value);
  }
  template <class T>
  void read(std::vector<T>& values) {
    const auto count = get<uint64_t>();
    if constexpr (Plain<T> || std::is_same_v<T, std::byte>) {
      const std::string_view bytes = take(count > head_.size() / sizeof(T) ? SIZE_MAX : count * sizeof(T));
      values.resize(bytes.size() / sizeof(T));
      if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      if (count > head_.size()) failed_ = true;  // each item takes a byte or more
      for (uint64_t i = 0; i < count && !failed_; ++i) get(values.emplace_back());
    }
  }
  template <class T>
  void read(std::optional<T>& value) {
    if (get<bool>()) get(value.emplace(T{}));  // clang 19 sees no default constructor of a nested struct here
  }
  template <class A, class B>
  void read(std::pair<A, B>& values) {
    get(values.first);
    get(values.second);
  }
  template <class T>
  void read(std::shared_ptr<const T>& value) {
    if (!get<bool>()) return;
    auto made = std::make_shared<T>();
    get(*made);
    value = std::move(made);
  }
  template <class T>
  void read(Result<T>& result) {
    if (!get<bool>())
      result = std::unexpected(get<Error>());
    else if constexpr (!std::is_void_v<T>)
      get(*result);
  }
  std::string_view take(size_t size);

  static constexpr unsigned kDeepest =
      140;  // structs in each other; a type of numpy has two a level, 32 levels at most

  std::string_view head_;
  Bytes bulk_;
  bool failed_ = false;
  unsigned depth_ = 0;
};

}  // namespace codecfs::rpc
