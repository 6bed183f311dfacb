#pragma once
// A JSON value as a member of a plain struct, for headers that must not include all of nlohmann's (135,000 lines after
// preprocessing). Code that inspects the value includes model/json.h.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>

namespace codecfs {

using Json = nlohmann::ordered_json;

/// An immutable JSON value; null by default. Copies share the value and are cheap. Thread-safe as a shared_ptr<const
/// Json>.
class JsonValue {
 public:
  JsonValue() = default;
  // Implicit, as from Json to a JsonValue and back nothing changes.
  JsonValue(const Json& value);
  JsonValue(Json&& value);
  JsonValue(std::string text);
  JsonValue(const char* text);
  template <class T>
    requires std::is_arithmetic_v<T>
  JsonValue(T number);  // in model/json.h

  operator const Json&() const { return **this; }
  const Json& operator*() const;
  const Json* operator->() const { return &**this; }
  [[nodiscard]] bool is_null() const;
  friend bool operator==(const JsonValue& one, const JsonValue& other);
  friend bool operator==(const JsonValue& one, const Json& other);

 private:
  std::shared_ptr<const Json> value_;  // empty: null
};

}  // namespace codecfs
