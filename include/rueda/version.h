/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The Rueda authors */
/* The version is written only in this file; CMake and the documentation read it from here. */
#ifndef RUEDA_VERSION_H
#define RUEDA_VERSION_H

#define RUEDA_VERSION_MAJOR 0
#define RUEDA_VERSION_MINOR 1
#define RUEDA_VERSION_PATCH 0
#define RUEDA_VERSION "0.1.0"

#endif /* RUEDA_VERSION_H */
