#pragma once
// Checks that must hold for any input.

#include <cstdio>
#include <cstdlib>
#include <string>

inline void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what.c_str());
  std::abort();
}
