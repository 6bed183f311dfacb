#pragma once
// A JSON value that is a member of a plain struct, for headers that must not include all of nlohmann's (135,000 lines
// after preprocessing). Include model/json.h where the value is looked into.

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace codecfs {

using Json = nlohmann::ordered_json;

/// An immutable JSON value; null by default. Copies share it, so they are cheap. As safe as a shared_ptr<const Json>.
class JsonValue {
 public:
  JsonValue() = default;
  JsonValue(const Json& value);  // NOLINT(google-explicit-constructor): a JsonValue stands for a Json
  JsonValue(Json&& value);       // NOLINT(google-explicit-constructor)

  operator const Json&() const { return **this; }  // NOLINT(google-explicit-constructor)
  const Json& operator*() const;
  const Json* operator->() const { return &**this; }
  [[nodiscard]] bool is_null() const;
  friend bool operator==(const JsonValue& one, const JsonValue& other);

 private:
  std::shared_ptr<const Json> value_;  // empty: null
};

}  // namespace codecfs
