// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Reflection;

/// <summary>Prints an assembly's public names and what each is, a row of them: name, tab, the rest. Names of parameters count: calls may give arguments by them.</summary>
static class PublicNames {
    static void Main(string[] arguments) {
        foreach (Type type in Assembly.LoadFrom(arguments[0]).GetExportedTypes()) {
            string name = Name(type);
            Console.WriteLine(name + "\t" + Kind(type) + (type.BaseType == null || type.BaseType == typeof(object) || type.IsEnum || Kind(type) == "delegate" ? "" : " : " + Name(type.BaseType)) +
                (Kind(type) == "delegate" ? " " + Of(type.GetMethod("Invoke")) : ""));
            if (Kind(type) == "delegate") continue;
            foreach (MemberInfo member in type.GetMembers(BindingFlags.Public | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly)) Print(name, member);
        }
    }

    static void Print(string owner, MemberInfo member) {
        if (member is FieldInfo field) {
            if (field.IsLiteral) Console.WriteLine(owner + "." + field.Name + "\t" + Name(field.FieldType) + " = " + field.GetRawConstantValue());
            else if (!field.IsSpecialName) Console.WriteLine(owner + "." + field.Name + "\t" + Name(field.FieldType));
        } else if (member is PropertyInfo property) {
            Console.WriteLine(owner + "." + property.Name + "\t" + Name(property.PropertyType) + (property.GetSetMethod() == null ? "" : ", set"));
        } else if (member is ConstructorInfo constructor) {
            Console.WriteLine(owner + "." + Signature("new", constructor) + "\t" + Of(constructor));
        } else if (member is MethodInfo method && !method.IsSpecialName) {
            Console.WriteLine(owner + "." + Signature(method.Name, method) + "\t" + (method.IsStatic ? "static " : "") + Name(method.ReturnType) + " " + Of(method));
        }
    }

    static string Kind(Type type) {
        if (type.IsEnum) return "enum";
        if (typeof(Delegate).IsAssignableFrom(type)) return "delegate";
        return type.IsValueType ? "struct" : type.IsAbstract && type.IsSealed ? "static class" : type.IsAbstract ? "abstract class" : type.IsSealed ? "sealed class" : "class";
    }

    static string Signature(string name, MethodBase method) {
        var types = new List<string>();
        foreach (ParameterInfo parameter in method.GetParameters()) types.Add((parameter.IsOut ? "out " : "") + Name(parameter.ParameterType));
        return name + (method.IsGenericMethod ? "<T>" : "") + "(" + string.Join(", ", types) + ")";
    }

    // What it returns, of a delegate, and the names.
    static string Of(MethodBase method) {
        var names = new List<string>();
        foreach (ParameterInfo parameter in method.GetParameters())
            names.Add((parameter.IsDefined(typeof(ParamArrayAttribute), false) ? "params " : "") + parameter.Name + (parameter.IsOptional ? " = " + (parameter.RawDefaultValue ?? "default") : ""));
        string given = method.DeclaringType != null && typeof(Delegate).IsAssignableFrom(method.DeclaringType) ? Name(((MethodInfo)method).ReturnType) + " " + Signature("", method) + " " : "";
        return given + "(" + string.Join(", ", names) + ")";
    }

    static string Name(Type type) {
        if (type.IsByRef) return Name(type.GetElementType());
        if (type.IsArray) return Name(type.GetElementType()) + "[]";
        string name = type.IsNested && !type.IsGenericParameter ? Name(type.DeclaringType) + "." + type.Name : type.Name;
        if (!type.IsGenericType) return name;
        var given = new List<string>();
        foreach (Type one in type.GetGenericArguments()) given.Add(Name(one));
        return name.Split('`')[0] + "<" + string.Join(", ", given) + ">";
    }
}
