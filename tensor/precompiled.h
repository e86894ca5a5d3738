/// The precompiled header of the library: headers that most of its files include, which the compiler parses only once.
/// Every file still includes the headers that it uses, so that a build with -Db_pch=false works too.
#include "tensor/map.h"
#include "tensor/standard_headers.h"
