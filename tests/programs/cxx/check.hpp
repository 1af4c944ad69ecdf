// Lines of results, whole even when several threads write.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

inline void say(const std::string &text) {
  std::string line = text + "\n";
  if (write(1, line.data(), line.size()) != static_cast<ssize_t>(line.size())) abort();
}

inline void must(bool condition, const char *what) {
  if (condition) return;
  say(std::string("NOT ") + what);
  exit(1);
}
