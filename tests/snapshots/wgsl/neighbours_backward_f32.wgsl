@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn neighbours_backward_f32(@builtin(workgroup_id) v299: vec3<u32>, @builtin(num_workgroups) v301: vec3<u32>, @builtin(local_invocation_index) v308: u32) {
let v338 = &v13;
let v339 = &v9;
let v340 = &v5;
let v341 = &v1;
let v3 = u32(0);
let v199 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_u32[0];
let v300 = v299[2];
let v208 = u32(v300);
let v302 = v301[1];
let v210 = u32(v302);
let v211 = v208 * v210;
let v303 = v301[0];
let v213 = u32(v303);
let v214 = v211 * v213;
let v304 = v299[1];
let v216 = u32(v304);
let v219 = v216 * v213;
let v220 = v214 + v219;
let v306 = v299[0];
let v222 = u32(v306);
let v223 = v220 + v222;
let v334 = u32(64);
let v226 = v223 * v334;
let v309 = v308;
let v228 = u32(v309);
let v229 = v226 + v228;
let v22 = v229 < v199;
if v22 {
let v24 = v229 / v18;
let v25 = u32(v24);
let v27 = v229 % v18;
var<function> v200_store: u32;
let v200 = &v200_store;
*v200 = v3;
var<function> v201_store: u32;
let v201 = &v201_store;
*v201 = v17;
loop {
let v32 = *v200;
let v33 = *v201;
let v34 = v32 < v33;
if !v34 { break; }
let v36 = *v200;
let v37 = *v201;
let v38 = v36 + v37;
let v39 = u32(2);
let v40 = v38 / v39;
let v41 = u32(1);
let v42 = v40 + v41;
let v46 = &(*v340)[v42];
let v47 = *v46;
let v48 = v47 > v25;
if v48 {
*v201 = v40;

} else {
*v200 = v42;

}

}
let v53 = *v200;
let v55 = &(*v340)[v53];
let v56 = *v55;
let v58 = u32(1);
let v59 = v53 + v58;
let v60 = min(v59, v17);
let v64 = &(*v340)[v60];
let v65 = *v64;
let v66 = f32(0.0);
let v67 = vec4<f32>(v66);
var<function> v203_store: vec4<f32>;
let v203 = &v203_store;
*v203 = v67;
let v69 = u32(1);
let v70 = v25 + v69;
let v73 = false;
var<function> v204_store: bool;
let v204 = &v204_store;
*v204 = v73;
let v76 = v70 >= v56;
let v77 = v70 < v65;
let v78 = v76 && v77;
if v78 {
let v79 = u32(v70);
let v83 = &(*v341)[v79];
let v84 = *v83;
let v85 = v84 / v19;
let v86 = u32(v25);
let v90 = &(*v341)[v86];
let v91 = *v90;
let v92 = v91 / v19;
let v93 = v85 == v92;
*v204 = v93;

}
let v94 = *v204;
if v94 {
let v95 = u32(v70);
let v96 = u32(3);
let v97 = v95 * v96;
let v100 = v97 * v18;
let v101 = v100 + v27;
let v105 = &(*v339)[v101];
let v106 = *v105;
let v107 = *v203;
let v108 = v107 + v106;
*v203 = v108;

}
let v112 = v70 - v69;
var<function> v205_store: bool;
let v205 = &v205_store;
*v205 = v73;
let v116 = v112 >= v56;
let v117 = v112 < v65;
let v118 = v116 && v117;
if v118 {
let v119 = u32(v112);
let v123 = &(*v341)[v119];
let v124 = *v123;
let v125 = v124 / v19;
let v126 = u32(v25);
let v130 = &(*v341)[v126];
let v131 = *v130;
let v132 = v131 / v19;
let v133 = v125 == v132;
*v205 = v133;

}
let v134 = *v205;
if v134 {
let v135 = u32(v112);
let v136 = u32(3);
let v137 = v135 * v136;
let v139 = v137 + v58;
let v140 = v139 * v18;
let v141 = v140 + v27;
let v145 = &(*v339)[v141];
let v146 = *v145;
let v147 = *v203;
let v148 = v147 + v146;
*v203 = v148;

}
let v151 = u32(2);
let v152 = v70 - v151;
var<function> v206_store: bool;
let v206 = &v206_store;
*v206 = v73;
let v156 = v152 >= v56;
let v157 = v152 < v65;
let v158 = v156 && v157;
if v158 {
let v159 = u32(v152);
let v163 = &(*v341)[v159];
let v164 = *v163;
let v165 = v164 / v19;
let v166 = u32(v25);
let v170 = &(*v341)[v166];
let v171 = *v170;
let v172 = v171 / v19;
let v173 = v165 == v172;
*v206 = v173;

}
let v174 = *v206;
if v174 {
let v175 = u32(v152);
let v176 = u32(3);
let v177 = v175 * v176;
let v178 = u32(2);
let v179 = v177 + v178;
let v180 = v179 * v18;
let v181 = v180 + v27;
let v185 = &(*v339)[v181];
let v186 = *v185;
let v187 = *v203;
let v188 = v187 + v186;
*v203 = v188;

}
let v189 = *v203;
let v194 = &(*v338)[v229];
*v194 = v189;

}
return;

}
