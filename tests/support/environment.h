#pragma once
// Variables of the environment during the lifetime of an object. For tests with one thread that reads them.

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace codecfs {

class ScopedEnvironment {
 public:
  ScopedEnvironment() = default;
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

  void set(const std::string& name, const std::string& value) {
    remember(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  void unset(const std::string& name) {
    remember(name);
    unsetenv(name.c_str());
  }
  /// All whose names begin so.
  void unset_all(const std::string& prefix) {
    std::vector<std::string> names;
    for (char** entry = environ; *entry; ++entry) {
      const std::string text = *entry;
      if (text.starts_with(prefix)) names.push_back(text.substr(0, text.find('=')));
    }
    for (const std::string& name : names) unset(name);
  }

 private:
  void remember(const std::string& name) {
    const char* value = getenv(name.c_str());
    before_.try_emplace(name, value ? std::optional<std::string>(value) : std::nullopt);
  }

  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace codecfs
