package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// scriptLimit is the time that Argo CD gives a script.
const scriptLimit = time.Second

// healthStates are those that Argo CD takes from a script.
var healthStates = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}

// libraries are those that Argo CD opens: a script that wants another one fails there too.
var libraries = []struct {
	name string
	open lua.LGFunction
}{
	{lua.LoadLibName, lua.OpenPackage},
	{lua.BaseLibName, lua.OpenBase},
	{lua.TabLibName, lua.OpenTable},
}

// runScript runs a health check over an object, which the script sees as the global "obj".
func runScript(script string, object map[string]any) (verdict, error) {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	for _, library := range libraries {
		call := lua.P{Fn: vm.NewFunction(library.open), NRet: 0, Protect: true}
		if err := vm.CallByParam(call, lua.LString(library.name)); err != nil {
			return verdict{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptLimit)
	defer cancel()
	vm.SetContext(ctx)
	vm.SetGlobal("obj", luaValue(vm, object))
	if err := vm.DoString(script); err != nil {
		return verdict{}, err
	}
	table, ok := vm.Get(-1).(*lua.LTable)
	if !ok {
		return verdict{}, fmt.Errorf("the script returned a %s, and not a table", vm.Get(-1).Type())
	}
	said := verdict{Status: lua.LVAsString(table.RawGetString("status")), Message: lua.LVAsString(table.RawGetString("message"))}
	if !slices.Contains(healthStates, said.Status) {
		return verdict{}, fmt.Errorf("the script returned the state %q, which is none of %v", said.Status, healthStates)
	}
	return said, nil
}

// luaValue is a decoded JSON value as a script sees it.
func luaValue(vm *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := vm.CreateTable(len(value), 0)
		for _, item := range value {
			table.Append(luaValue(vm, item))
		}
		return table
	case map[string]any:
		table := vm.CreateTable(0, len(value))
		for key, item := range value {
			table.RawSetString(key, luaValue(vm, item))
		}
		return table
	default:
		return lua.LNil
	}
}
