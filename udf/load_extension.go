//go:build bglm_extension

package udf

import "github.com/bglm/bglm/udf/internal/capi"

func init() { capi.OnLoad = registerAll }
