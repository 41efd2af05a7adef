// Runs all native tests. doctest's options select and list them: spdl_tests --help

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
