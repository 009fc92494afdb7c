enable f16;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn neighbours_backward_f16(@builtin(workgroup_id) v303: vec3<u32>, @builtin(num_workgroups) v305: vec3<u32>, @builtin(local_invocation_index) v312: u32) {
let v342 = &v13;
let v343 = &v9;
let v344 = &v5;
let v345 = &v1;
let v3 = u32(0);
let v203 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_u32[0];
let v304 = v303[2];
let v212 = u32(v304);
let v306 = v305[1];
let v214 = u32(v306);
let v215 = v212 * v214;
let v307 = v305[0];
let v217 = u32(v307);
let v218 = v215 * v217;
let v308 = v303[1];
let v220 = u32(v308);
let v223 = v220 * v217;
let v224 = v218 + v223;
let v310 = v303[0];
let v226 = u32(v310);
let v227 = v224 + v226;
let v338 = u32(64);
let v230 = v227 * v338;
let v313 = v312;
let v232 = u32(v313);
let v233 = v230 + v232;
let v22 = v233 < v203;
if v22 {
let v24 = v233 / v18;
let v25 = u32(v24);
let v27 = v233 % v18;
var<function> v204_store: u32;
let v204 = &v204_store;
*v204 = v3;
var<function> v205_store: u32;
let v205 = &v205_store;
*v205 = v17;
loop {
let v32 = *v204;
let v33 = *v205;
let v34 = v32 < v33;
if !v34 { break; }
let v36 = *v204;
let v37 = *v205;
let v38 = v36 + v37;
let v39 = u32(2);
let v40 = v38 / v39;
let v41 = u32(1);
let v42 = v40 + v41;
let v46 = &(*v344)[v42];
let v47 = *v46;
let v48 = v47 > v25;
if v48 {
*v205 = v40;

} else {
*v204 = v42;

}

}
let v53 = *v204;
let v55 = &(*v344)[v53];
let v56 = *v55;
let v58 = u32(1);
let v59 = v53 + v58;
let v60 = min(v59, v17);
let v64 = &(*v344)[v60];
let v65 = *v64;
let v66 = f32(0.0);
let v67 = vec4<f32>(v66);
var<function> v207_store: vec4<f32>;
let v207 = &v207_store;
*v207 = v67;
let v69 = u32(1);
let v70 = v25 + v69;
let v73 = false;
var<function> v208_store: bool;
let v208 = &v208_store;
*v208 = v73;
let v76 = v70 >= v56;
let v77 = v70 < v65;
let v78 = v76 && v77;
if v78 {
let v79 = u32(v70);
let v83 = &(*v345)[v79];
let v84 = *v83;
let v85 = v84 / v19;
let v86 = u32(v25);
let v90 = &(*v345)[v86];
let v91 = *v90;
let v92 = v91 / v19;
let v93 = v85 == v92;
*v208 = v93;

}
let v94 = *v208;
if v94 {
let v95 = u32(v70);
let v96 = u32(3);
let v97 = v95 * v96;
let v100 = v97 * v18;
let v101 = v100 + v27;
let v105 = &(*v343)[v101];
let v106 = *v105;
let v107 = vec4<f32>(v106);
let v108 = *v207;
let v109 = v108 + v107;
*v207 = v109;

}
let v113 = v70 - v69;
var<function> v209_store: bool;
let v209 = &v209_store;
*v209 = v73;
let v117 = v113 >= v56;
let v118 = v113 < v65;
let v119 = v117 && v118;
if v119 {
let v120 = u32(v113);
let v124 = &(*v345)[v120];
let v125 = *v124;
let v126 = v125 / v19;
let v127 = u32(v25);
let v131 = &(*v345)[v127];
let v132 = *v131;
let v133 = v132 / v19;
let v134 = v126 == v133;
*v209 = v134;

}
let v135 = *v209;
if v135 {
let v136 = u32(v113);
let v137 = u32(3);
let v138 = v136 * v137;
let v140 = v138 + v58;
let v141 = v140 * v18;
let v142 = v141 + v27;
let v146 = &(*v343)[v142];
let v147 = *v146;
let v148 = vec4<f32>(v147);
let v149 = *v207;
let v150 = v149 + v148;
*v207 = v150;

}
let v153 = u32(2);
let v154 = v70 - v153;
var<function> v210_store: bool;
let v210 = &v210_store;
*v210 = v73;
let v158 = v154 >= v56;
let v159 = v154 < v65;
let v160 = v158 && v159;
if v160 {
let v161 = u32(v154);
let v165 = &(*v345)[v161];
let v166 = *v165;
let v167 = v166 / v19;
let v168 = u32(v25);
let v172 = &(*v345)[v168];
let v173 = *v172;
let v174 = v173 / v19;
let v175 = v167 == v174;
*v210 = v175;

}
let v176 = *v210;
if v176 {
let v177 = u32(v154);
let v178 = u32(3);
let v179 = v177 * v178;
let v180 = u32(2);
let v181 = v179 + v180;
let v182 = v181 * v18;
let v183 = v182 + v27;
let v187 = &(*v343)[v183];
let v188 = *v187;
let v189 = vec4<f32>(v188);
let v190 = *v207;
let v191 = v190 + v189;
*v207 = v191;

}
let v192 = *v207;
let v193 = vec4<f16>(v192);
let v198 = &(*v342)[v233];
*v198 = v193;

}
return;

}
