"""Builds the extension module and the programs with the project's CMake.

The C sources are the folder above this one in a clone, and ``project/`` in a source distribution.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Command, Distribution, Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.install_scripts import install_scripts
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
PROJECT = HERE / "project" if (HERE / "project").is_dir() else HERE.parent
PROGRAMS = ["det", "det-run", "det-launch"]
# What the CMake of this package needs of the project.
SOURCES = ["CMakeLists.txt", "LICENSE", "cmake", "include", "src", "python/CMakeLists.txt", "python/native"]
SOURCES += ["scripts/build-webui", "scripts/make-assets", "scripts/packages.txt", "webui"]


def version() -> str:
    text = (PROJECT / "include/det/version.h").read_text()
    found = re.search(r'define DET_VERSION "(.+)"', text)
    assert found, "include/det/version.h names no version"
    return found[1]


def run(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        sys.exit(
            f"det: {command[0]} is missing (on Debian: apt-get install cmake ninja-build build-essential)"
        )
    except subprocess.CalledProcessError as error:
        sys.exit(f"det: {command[0]} failed with status {error.returncode}; its messages are above")


class BuildNative(build_ext):
    """Runs CMake, and takes the extension module and the programs from its build folder."""

    def run(self) -> None:
        made = os.environ.get("DET_BUILD")  # a build folder that is there already
        build = Path(made or self.build_temp).resolve()
        if not made:
            self.configure(build)
        run("cmake", "--build", str(build), "--target", "_det", *PROGRAMS)
        target = Path(self.get_ext_fullpath("determined._det")).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(build / "python/determined/_det.abi3.so", target)
        scripts = Path(self.get_finalized_command("build_scripts").build_dir)
        scripts.mkdir(parents=True, exist_ok=True)
        for program in PROGRAMS:
            shutil.copy(build / program, scripts / program)

    def configure(self, build: Path) -> None:
        include = sysconfig.get_path("include")
        if not (Path(include) / "Python.h").exists():
            sys.exit(f"det: Python.h is missing in {include} (on Debian: apt-get install python3-dev)")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "DET_TESTS": "OFF",
            "DET_LTO": "ON",
            "DET_PYTHON": "ON",
            "DET_PYTHON_INCLUDE": include,
        }
        flags = [f"-D{name}={value}" for name, value in options.items()]
        flags += os.environ.get("DET_CMAKE_ARGS", "").split()
        run("cmake", "-S", str(PROJECT), "-B", str(build), *generator, *flags)

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + ".abi3.so"


class BuildScripts(Command):
    """Programs are made by BuildNative; setuptools would take them for text."""

    user_options: list[str] = []

    def initialize_options(self) -> None:
        self.build_dir: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_scripts", "build_dir"))

    def run(self) -> None:
        for program in PROGRAMS:
            path = Path(str(self.build_dir)) / program
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def get_source_files(self) -> list[str]:
        return []


class InstallScripts(install_scripts):
    """Installs them, although setuptools was told of none."""

    def run(self) -> None:
        target = Path(self.install_dir)
        target.mkdir(parents=True, exist_ok=True)
        self.outfiles = [shutil.copy(Path(self.build_dir) / name, target / name) for name in PROGRAMS]


class SourceDistribution(sdist):
    """Adds the C sources of the project."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for name in SOURCES:
            source, target = PROJECT / name, Path(base_dir) / "project" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("node_modules", "test", "__pycache__")
                )
            else:
                shutil.copy(source, target)


class Wheel(bdist_wheel):
    """One wheel for CPython 3.9 and all later ones."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return "cp39", "abi3", platform


class WithPrograms(Distribution):
    """Has programs, although setuptools is told of none."""

    def has_scripts(self) -> bool:
        return True


setup(
    version=version(),
    distclass=WithPrograms,
    packages=find_packages(include=["determined*", "pytorch_accelerated*"]),
    package_data={"": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("determined._det", [], py_limited_api=True)],
    cmdclass={
        "build_ext": BuildNative,
        "build_scripts": BuildScripts,
        "install_scripts": InstallScripts,
        "sdist": SourceDistribution,
        "bdist_wheel": Wheel,
    },
)
